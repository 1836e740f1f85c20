"""BART and its kin PLBART and MVP: BartConfig and BartForConditionalGeneration, or BartForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bart_like import BART_DEFAULTS, LEARNED, Wiring, bart_like, bart_weights

MODEL_TYPES = ("bart", "plbart", "mvp")
SMALL = {
    f"{half}_{key}": size
    for half in ("encoder", "decoder")
    for key, size in {"layers": 6, "ffn_dim": 3072, "attention_heads": 12}.items()
}
OWN = {
    "plbart": {**SMALL, "vocab_size": 50005, "d_model": 768, "scale_embedding": True},
    "mvp": {"vocab_size": 50267, "use_prompt": False},
}


def _of_class(config: Config) -> Config:
    return config.of_class({**BART_DEFAULTS, **OWN.get(config.model_type, {})})


def mapping(config: Config) -> Mapped:
    """Post-norm without final norms, learned positions, a norm after the embeddings, all biased."""
    config = _of_class(config)
    if config.model_type == "mvp":
        config.only("use_prompt", False)  # prompts are keys and values of every layer, made by a network
        config.ignore("prompt_length", "prompt_mid_dim")
    return bart_like(config, Wiring("post_norm", LEARNED))


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder."""
    return bart_weights(_of_class(config))
