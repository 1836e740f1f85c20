"""Jina Embeddings 3: JinaEmbeddingsV3Config, JinaEmbeddingsV3Model."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import ROBERTA_HEAD, rotated_names, tied_names
from archcli.load.huggingface.whole.bert_like import (
    BERT_DEFAULTS,
    MASKED,
    bert_like,
    rotated,
    with_second_bias,
)

MODEL_TYPES = ("jina_embeddings_v3",)
DEFAULTS = {
    **BERT_DEFAULTS,
    "vocab_size": 250002,
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "max_position_embeddings": 8194,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
HEADS = {name: parts for name, parts in MASKED.items() if name != "ForMultipleChoice"}


def mapping(config: Config) -> Mapped:
    """As XLM-RoBERTa, with RoPE in place of learned positions."""
    config = config.of_class(DEFAULTS)
    whole = bert_like(
        config,
        "JinaEmbeddingsV3",
        HEADS,
        attention=rotated(config, 20000.0),
        embedding={"position": {"kind": "none"}},
        head={"activation": "gelu"},
    )
    return with_second_bias(config, whole)


def weights(config: Config) -> Weights:
    """Weight names: RoBERTa's around layers with Llama's words."""
    tied = bool(config.of_class(DEFAULTS).flag("tie_word_embeddings"))
    return {
        **rotated_names("roberta", "mixer"),
        **ROBERTA_HEAD,
        **tied_names("lm_head.decoder.weight", "lm_head.bias", tied),
    }
