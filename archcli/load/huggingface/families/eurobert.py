"""EuroBERT: EuroBertConfig, EuroBertForMaskedLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.bert_like import heads_of
from archcli.load.huggingface.whole.llama_like import LLAMA_DEFAULTS, llama_like

MODEL_TYPES = ("eurobert",)
DEFAULTS = {
    **LLAMA_DEFAULTS,
    "vocab_size": 128256,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
}
HEADS = {"Model": (), "ForMaskedLM": ("words",), "ForTokenClassification": ("labels",)}


def mapping(config: Config) -> Mapped:
    """As Llama, where every token sees every other; mlp_bias biases the head, too."""
    config = config.of_class(DEFAULTS)
    config.ignore("mask_token_id", "classifier_pooling", "clf_pooling")
    bias = config.flag("mlp_bias")
    fields = heads_of(config, "EuroBert", HEADS, {"transform": False, "bias": bias})
    heads = {"bias": config.flag("attention_bias"), "causal": False}
    return llama_like(config, kind="encoder", heads=heads, ffn=gated(config, bias=bias), **fields)


WEIGHTS: Weights = {**LLAMA, "classifier.*": "classifier.*"}
