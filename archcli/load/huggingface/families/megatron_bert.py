"""Megatron-BERT: MegatronBertConfig, MegatronBertModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, encoder_names, pre_norm_names, tied_names
from archcli.load.huggingface.whole.bert_like import bert_like, with_second_bias

MODEL_TYPES = ("megatron-bert",)


def mapping(config: Config) -> Mapped:
    """As BERT with norms before the sublayers and after the last layer, none on the embeddings."""
    config = config.of_class()
    config.only("position_embedding_type", "absolute", default="absolute")
    return with_second_bias(
        config, bert_like(config, "MegatronBert", block="pre_norm", embedding={"norm": None})
    )


def weights(config: Config) -> Weights:
    """Weight names: BERT's, with the norms in other places."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    return {
        **encoder_names("bert", post_norm=False),
        **pre_norm_names("bert", "attention.ln", "ln", "encoder.ln"),
        **BERT_HEAD,
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }
