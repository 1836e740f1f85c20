"""Blenderbot and its small kin: BlenderbotConfig and BlenderbotForConditionalGeneration."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bart_like import Wiring, bart_like, bart_weights

MODEL_TYPES = ("blenderbot", "blenderbot-small")
TABLE = {"kind": "learned"}


def mapping(config: Config) -> Mapped:
    """Pre-norm without a norm of embeddings; the small one post-norm, its decoder's norm before positions."""
    config = config.of_class()
    if config.model_type == "blenderbot":
        return bart_like(config, Wiring("pre_norm", TABLE, final_norm=True, norm=False))
    return bart_like(config, Wiring("post_norm", TABLE), norms_tokens=True)


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder."""
    return bart_weights(config.of_class())
