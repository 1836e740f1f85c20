"""RoBERTa, XLM-RoBERTa, CamemBERT and data2vec for text: RobertaConfig and its like, with their heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import ROBERTA_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import ROBERTA_HEADS, after_padding, bert_like, with_second_bias

MODEL_TYPES = ("roberta", "xlm-roberta", "camembert", "data2vec-text")
PREFIXES = {
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
    "data2vec-text": "Data2VecText",
}
BASES = {"data2vec-text": "data2vec_text"}
TABLE, BIAS = "lm_head.decoder.weight", "lm_head.bias"


def mapping(config: Config) -> Mapped:
    """As BERT, with positions from the padding token's id on; the head's activation is GELU."""
    config = config.of_class()
    config.only("position_embedding_type", "absolute", default="absolute")
    position = after_padding(config)
    whole = bert_like(
        config,
        PREFIXES[config.model_type],
        ROBERTA_HEADS,
        embedding={"position": position},
        head={"activation": "gelu"},
        max_seq_len=position["max_seq_len"],
    )
    return with_second_bias(config, whole)


def weights(config: Config) -> Weights:
    """Weight names: RoBERTa's for all but data2vec."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    base = BASES.get(config.model_type, "roberta")
    return {**encoder_names(base), **ROBERTA_HEAD, **tied_names(TABLE, BIAS, tied)}
