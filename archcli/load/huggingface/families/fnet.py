"""FNet: FNetConfig, FNetModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, encoder_names, norm_names, tied_names
from archcli.load.huggingface.whole.bert_like import bert_like, with_second_bias

MODEL_TYPES = ("fnet",)
OWN = {"num_attention_heads": 1}
HEADS = {
    "Model": ("pooler",),
    "ForMaskedLM": ("pooler", "words"),
    "ForPreTraining": ("pooler", "words", "two labels"),
    "ForNextSentencePrediction": ("pooler", "two labels"),
    "ForSequenceClassification": ("pooler", "labels"),
    "ForMultipleChoice": ("pooler", "one label"),
}


def mapping(config: Config) -> Mapped:
    """As BERT, with Fourier transforms in place of attention, and a matrix after the embeddings' norm."""
    config = config.of_class(OWN)
    config.only("use_tpu_fourier_optimizations", False)
    config.ignore("num_attention_heads", "tpu_short_seq_length")
    embedding = {"width": config.size("hidden_size"), "width_of": "all"}
    whole = bert_like(config, "FNet", HEADS, embedding=embedding)
    [group] = whole["groups"]
    layer = {"kind": "post_norm", "mixer": {"kind": "fourier"}, "ffn": group["layer"]["ffn"]}
    return with_second_bias(config, {**whole, "groups": [{**group, "layer": layer}]})


def weights(config: Config) -> Weights:
    """Weight names: BERT's, without attention."""
    tied = bool(config.of_class(OWN).flag("tie_word_embeddings"))
    return {
        **{name: rule for name, rule in encoder_names("fnet").items() if ".attention." not in name},
        **norm_names({"[fnet.]encoder.layer.*.fourier.output": "layers.*.mixer_norm"}),
        "[fnet.]embeddings.projection.*": "embedding.project_in.*",
        **BERT_HEAD,
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }
