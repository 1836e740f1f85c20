"""ELECTRA, discriminator and generator: ElectraConfig, ElectraForPreTraining and ElectraForMaskedLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import encoder_names, norm_names
from archcli.load.huggingface.whole.bert_like import LABELLED, bert_like, narrow

MODEL_TYPES = ("electra",)
SIZES = {"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
HEADS = {
    "Model": (),
    "ForPreTraining": ("every", "one label"),
    "ForMaskedLM": ("words",),
    "ForCausalLM": ("words",),
    **{name: parts for name, parts in LABELLED.items() if name != "ForMultipleChoice"},
}
SUMMARY = ("summary_type", "summary_use_proj", "summary_last_dropout")


def mapping(config: Config) -> Mapped:
    """As BERT, with embeddings of a width of their own; the discriminator judges every token."""
    config = config.of_class()
    config.only("position_embedding_type", "absolute", default="absolute")
    config.ignore(*SUMMARY)
    width = narrow(config, "embedding_size")
    head = {"activation": "gelu", **({"width": width["width"]} if width else {})}
    pooled = "hidden_act" if config.architecture == "ElectraForPreTraining" else "gelu"
    return bert_like(config, "Electra", HEADS, embedding=width, head=head, pooled=pooled)


WEIGHTS: Weights = {
    **encoder_names("electra"),
    "[electra.]embeddings_project.*": "embedding.project_in.*",
    "generator_predictions.dense.*": "lm_head_transform.*",
    **norm_names({"generator_predictions": "lm_head_norm"}),
    "generator_lm_head.*": "lm_head.*",
    "discriminator_predictions.dense.*": "pooler.*",
    "discriminator_predictions.dense_prediction.*": "classifier.*",
    "classifier.dense.*": "pooler.*",
    "classifier.out_proj.*": "classifier.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}
