"""RoFormer: RoFormerConfig, RoFormerModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import LABELLED, bert_like, narrow, with_second_bias

MODEL_TYPES = ("roformer",)
HEADS = {
    "Model": (),
    "ForMaskedLM": ("words",),
    "ForCausalLM": ("words",),
    **{name: parts for name, parts in LABELLED.items() if name != "ForMultipleChoice"},
}


def mapping(config: Config) -> Mapped:
    """As BERT, with RoPE on alternating pairs in place of learned positions."""
    config = config.of_class()
    config.only("rotary_value", False)
    width = narrow(config, "embedding_size", default=config.size("hidden_size"))
    head = {"width": width["width"]} if width else {}
    whole = bert_like(
        config,
        "RoFormer",
        HEADS,
        attention={"position": {"kind": "rope", "pairing": "interleaved"}},
        embedding={"position": {"kind": "none"}, **width},
        head=head,
        pooled="hidden_act",
    )
    return with_second_bias(config, whole)


def weights(config: Config) -> Weights:
    """Weight names: BERT's; the table of sines is computed."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    return {
        **encoder_names("roformer"),
        "[roformer.]embeddings_project.*": "embedding.project_in.*",
        "[roformer.]encoder.embed_positions.weight": Auxiliary("a fixed table of sines and cosines"),
        **BERT_HEAD,
        "classifier.dense.*": "pooler.*",
        "classifier.out_proj.*": "classifier.*",
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }
