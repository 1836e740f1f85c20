"""Jina Embeddings 3: JinaEmbeddingsV3Config, JinaEmbeddingsV3Model."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import ROBERTA_HEAD, rotated_names, tied_names
from archcli.load.huggingface.whole.bert_like import MASKED, bert_like, rotated, with_second_bias

MODEL_TYPES = ("jina_embeddings_v3",)
HEADS = {name: parts for name, parts in MASKED.items() if name != "ForMultipleChoice"}


def mapping(config: Config) -> Mapped:
    """As XLM-RoBERTa, with RoPE in place of learned positions."""
    config = config.of_class()
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
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    return {
        **rotated_names("roberta", "mixer"),
        **ROBERTA_HEAD,
        **tied_names("lm_head.decoder.weight", "lm_head.bias", tied),
    }
