"""EuroBERT: EuroBertConfig, EuroBertForMaskedLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.bert_like import heads_of
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("eurobert",)
HEADS = {"Model": (), "ForMaskedLM": ("words",), "ForTokenClassification": ("labels",)}


def mapping(config: Config) -> Mapped:
    """As Llama, where every token sees every other; mlp_bias biases the head, too."""
    config = config.of_class()
    config.ignore("mask_token_id", "classifier_pooling", "clf_pooling")
    bias = config.flag("mlp_bias")
    fields = heads_of(config, "EuroBert", HEADS, {"transform": False, "bias": bias})
    heads = {"bias": config.flag("attention_bias"), "causal": False}
    return llama_like(config, kind="encoder", heads=heads, ffn=gated(config, bias=bias), **fields)


WEIGHTS: Weights = {**LLAMA, "classifier.*": "classifier.*"}
