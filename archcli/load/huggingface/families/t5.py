"""T5 and T5 v1.1 (Flan): T5Config and T5ForConditionalGeneration."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.t5_like import ALIASES, t5_like, t5_weights

MODEL_TYPES = ("t5",)
TIES_UNSTORED_HEAD = True
"""The class ties the head whatever the config says, so a checkpoint without one is a tied model's."""


def mapping(config: Config) -> Mapped:
    """Relative buckets are shared by all layers of a half; a tied head reads x / sqrt(d_model).

    `tie_word_embeddings: false` (v1.1, Flan) gives an untied head that reads x itself.
    """
    config = config.of_class(**ALIASES)
    # transformers 5 writes tie_word_embeddings true over every false, which it keeps as scale_decoder_outputs
    tied = config.flag("tie_word_embeddings")
    scaled = config.flag("scale_decoder_outputs", default=tied)
    return t5_like(config, tied.derive(bool(tied) and bool(scaled)), scaled)


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of an encoder alone."""
    return t5_weights(config)
