"""RoBERTa with the norm first, XLM-RoBERTa-XL (RobertaPreLayerNormConfig, XLMRobertaXLConfig)."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import ROBERTA_HEAD, encoder_names, pre_norm_names, tied_names
from archcli.load.huggingface.whole.bert_like import ROBERTA_HEADS, after_padding, bert_like, with_second_bias

MODEL_TYPES = ("roberta-prelayernorm", "xlm-roberta-xl")
PREFIXES = {"roberta-prelayernorm": "RobertaPreLayerNorm", "xlm-roberta-xl": "XLMRobertaXL"}
NORMS = {
    "roberta-prelayernorm": ("attention.LayerNorm", "intermediate.LayerNorm", "LayerNorm"),
    "xlm-roberta-xl": ("attention.self_attn_layer_norm", "LayerNorm", "encoder.LayerNorm"),
}
"""The norm before attention, the one before the network, and the last."""


def mapping(config: Config) -> Mapped:
    """As RoBERTa, with norms before the sublayers and after the last layer; XL has none on embeddings."""
    config = config.of_class()
    position = after_padding(config)
    bare = {"norm": None} if config.model_type == "xlm-roberta-xl" else {}
    whole = bert_like(
        config,
        PREFIXES[config.model_type],
        ROBERTA_HEADS,
        block="pre_norm",
        embedding={"position": position, **bare},
        head={"activation": "gelu"},
        max_seq_len=position["max_seq_len"],
    )
    return with_second_bias(config, whole)


def weights(config: Config) -> Weights:
    """Weight names; the norms stand in other places."""
    base = "roberta" if config.model_type == "xlm-roberta-xl" else "roberta_prelayernorm"
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    return {
        **encoder_names(base, post_norm=False),
        **pre_norm_names(base, *NORMS[config.model_type]),
        **ROBERTA_HEAD,
        **tied_names("lm_head.decoder.weight", "lm_head.bias", tied),
    }
