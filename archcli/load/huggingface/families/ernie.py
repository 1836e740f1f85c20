"""ERNIE 1 to 3: ErnieConfig, ErnieModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import BERT_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import bert_like, with_second_bias

MODEL_TYPES = ("ernie",)


def mapping(config: Config) -> Mapped:
    """As BERT, in ERNIE 3 with a vector of the task on every token."""
    config = config.of_class()
    config.only("position_embedding_type", "absolute", default="absolute")
    tasks = {"more_types": [config.size("task_type_vocab_size")]} if config.flag("use_task_id") else {}
    return with_second_bias(config, bert_like(config, "Ernie", embedding=tasks))


def weights(config: Config) -> Weights:
    """Weight names: BERT's, and the table of tasks."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    return {
        **encoder_names("ernie"),
        "[ernie.]embeddings.task_type_embeddings.weight": "embedding.more_types_0.weight",
        **BERT_HEAD,
        **tied_names("cls.predictions.decoder.weight", "cls.predictions.bias", tied),
    }
