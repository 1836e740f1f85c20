"""Blenderbot and its small kin: BlenderbotConfig and BlenderbotForConditionalGeneration."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bart_like import BART_DEFAULTS, Wiring, bart_like, bart_weights

MODEL_TYPES = ("blenderbot", "blenderbot-small")
LARGE = {
    "vocab_size": 8008,
    "max_position_embeddings": 128,
    "encoder_layers": 2,
    "decoder_layers": 24,
    "d_model": 2560,
    **{f"{half}_ffn_dim": 10240 for half in ("encoder", "decoder")},
    **{f"{half}_attention_heads": 32 for half in ("encoder", "decoder")},
}
SMALL = {
    "max_position_embeddings": 512,
    "d_model": 512,
    **{f"{half}_layers": 8 for half in ("encoder", "decoder")},
    **{f"{half}_ffn_dim": 2048 for half in ("encoder", "decoder")},
}
OWN = {"blenderbot": LARGE, "blenderbot-small": SMALL}
TABLE = {"kind": "learned"}


def _of_class(config: Config) -> Config:
    return config.of_class({**BART_DEFAULTS, **OWN[config.model_type]})


def mapping(config: Config) -> Mapped:
    """Pre-norm without a norm of embeddings; the small one post-norm, its decoder's norm before positions."""
    config = _of_class(config)
    if config.model_type == "blenderbot":
        return bart_like(config, Wiring("pre_norm", TABLE, final_norm=True, norm=False))
    return bart_like(config, Wiring("post_norm", TABLE), norms_tokens=True)


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder."""
    return bart_weights(_of_class(config))
