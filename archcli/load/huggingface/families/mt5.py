"""mT5 and UMT5, T5 for many languages: MT5Config and MT5ForConditionalGeneration."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.t5_like import ALIASES, t5_like, t5_weights

MODEL_TYPES = ("mt5", "umt5")
TIES_UNSTORED_HEAD = True
"""The class ties the head whatever the config says, so a checkpoint without one is a tied model's."""

SIZES = {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6}


def mapping(config: Config) -> Mapped:
    """As T5 v1.1; UMT5 has buckets in each layer, and its tied head reads x / sqrt(d_model), as T5's does."""
    config = config.of_class(**ALIASES)
    tied, unified = config.flag("tie_word_embeddings"), config.model_type == "umt5"
    if not unified:
        return t5_like(config, tied, False)
    scaled = config.flag("scale_decoder_outputs", default=tied)  # how transformers 5.24 keeps a stated false
    return t5_like(config, tied.derive(bool(tied) and bool(scaled)), scaled, per_layer=True)


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of an encoder alone."""
    return t5_weights(config, per_layer=config.model_type == "umt5")
