"""RemBERT: RemBertConfig, RemBertModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import encoder_names, norm_names
from archcli.load.huggingface.whole.bert_like import ROBERTA_HEADS, bert_like

MODEL_TYPES = ("rembert",)


def mapping(config: Config) -> Mapped:
    """As BERT, with a narrow embedding and a head wider than the layers, which is never tied."""
    config = config.of_class()
    config.ignore("classifier_dropout_prob")
    config.ignore("tie_word_embeddings")  # the class names no tied weights
    embedding = {"width": config.size("input_embedding_size"), "width_of": "all", "tied": False}
    head = {"width": config.size("output_embedding_size")}
    return bert_like(config, "RemBert", ROBERTA_HEADS, embedding=embedding, head=head)


WEIGHTS: Weights = {
    **encoder_names("rembert"),
    "[rembert.]encoder.embedding_hidden_mapping_in.*": "embedding.project_in.*",
    "cls.predictions.dense.*": "lm_head_transform.*",
    **norm_names({"cls.predictions": "lm_head_norm"}),
    "cls.predictions.decoder.*": "lm_head.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}
