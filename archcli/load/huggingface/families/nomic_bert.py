"""Nomic BERT (nomic-embed-text): NomicBertConfig, NomicBertModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, rotated_names, tied_names
from archcli.load.huggingface.whole.bert_like import BERT_DEFAULTS, bert_like, rotated, with_second_bias

MODEL_TYPES = ("nomic_bert",)
DEFAULTS = {**BERT_DEFAULTS, "vocab_size": 30528, "hidden_act": "silu", "max_position_embeddings": 2048}
HEADS = {
    "Model": (),
    "ForMaskedLM": ("words",),
    "ForSequenceClassification": ("pooler", "labels"),
    "ForTokenClassification": ("labels",),
}


def mapping(config: Config) -> Mapped:
    """As BERT, with RoPE, a gated network, and no bias in the layers."""
    config = config.of_class(DEFAULTS)
    whole = bert_like(
        config,
        "NomicBert",
        HEADS,
        attention=rotated(config, 1000.0, bias=False),
        embedding={"position": {"kind": "none"}},
        ffn=gated(config),
    )
    return with_second_bias(config, whole)


def weights(config: Config) -> Weights:
    """Weight names: BERT's around layers with Llama's words."""
    tied = bool(config.of_class(DEFAULTS).flag("tie_word_embeddings"))
    return {
        **rotated_names("nomic_bert", "attn"),
        **BERT_HEAD,
        "cls.predictions.transform.layer_norm.*": "lm_head_norm.*",
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }
