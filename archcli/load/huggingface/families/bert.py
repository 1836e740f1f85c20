"""BERT: BertConfig, BertModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import BERT_HEADS, bert_like, with_second_bias

MODEL_TYPES = ("bert",)
HEADS = {**BERT_HEADS, "LMHeadModel": ("words",)}
TABLE, BIAS = "cls.predictions.decoder.weight", "cls.predictions.bias"

POOLER = tuple(
    f"pooler_{key}" for key in ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")
)
"""Keys of the first multilingual files that no class reads."""


def mapping(config: Config) -> Mapped:
    """Post-norm, learned positions and segment types, a norm after the embeddings.

    The name of the class tells the head.
    """
    config = config.of_class()
    config.only("position_embedding_type", "absolute", default="absolute")
    config.ignore("directionality", "output_past", *POOLER)
    return with_second_bias(config, bert_like(config, "Bert", HEADS))


def weights(config: Config) -> Weights:
    """Weight names; an untied head has two biases, one of which no pass reads."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    return {**encoder_names("bert"), **BERT_HEAD, **tied_names(TABLE, BIAS, tied)}
