"""Longformer: LongformerConfig, LongformerModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.decoder import groups
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import ROBERTA_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import MASKED, after_padding, bert_like, with_second_bias

MODEL_TYPES = ("longformer",)


def mapping(config: Config) -> Mapped:
    """As RoBERTa, where tokens see a window; no token is global, as in a pass that names none."""
    config = config.of_class()
    config.ignore(
        "onnx_export", "attention_mode", "attention_dilation", "autoregressive", "ignore_attention_mask"
    )
    position = after_padding(config)
    whole = bert_like(
        config,
        "Longformer",
        MASKED,
        attention={"global_projections": True},
        embedding={"position": position},
        head={"activation": "gelu"},
        max_seq_len=position["max_seq_len"],
    )
    layer, layers = whole["groups"][0]["layer"], []
    for window in _windows(config):
        near = {"kind": "longformer", "window": window}
        layers.append({**layer, "attention": {**layer["attention"], "sparsity": near}})
    whole["groups"] = groups(layers)
    return with_second_bias(config, whole)


def _windows(config: Config) -> list[ConfigValue[int]]:
    """The window of each layer: one number for all, or a list."""
    stated, depth = config.value("attention_window"), config.layers()
    sizes = stated.value if isinstance(stated.value, list) else [stated.value] * depth
    if len(sizes) != depth or not all(type(size) is int and size > 0 and size % 2 == 0 for size in sizes):
        what = f"attention_window {short_repr(stated.value)} is not supported"
        raise config.error(what, "an even number above 0, or one for each layer", stated.place)
    return [stated.derive(size) for size in sizes]


def weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, and the projections of global tokens."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    place = "[longformer.]encoder.layer.*.attention.self"
    return {
        **encoder_names("longformer"),
        **{
            f"{place}.{name}_global.*": f"layers.*.attention.{name[0]}_global_proj.*"
            for name in ("query", "key", "value")
        },
        **ROBERTA_HEAD,
        **tied_names("lm_head.decoder.weight", "lm_head.bias", tied),
    }
