"""BART and its kin PLBART and MVP: BartConfig and BartForConditionalGeneration, or BartForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bart_like import LEARNED, Wiring, bart_like, bart_weights

MODEL_TYPES = ("bart", "plbart", "mvp")


def mapping(config: Config) -> Mapped:
    """Post-norm without final norms, learned positions, a norm after the embeddings, all biased."""
    config = config.of_class()
    if config.model_type == "mvp":
        config.only("use_prompt", False)  # prompts are keys and values of every layer, made by a network
        config.ignore("prompt_length", "prompt_mid_dim")
    return bart_like(config, Wiring("post_norm", LEARNED))


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder."""
    return bart_weights(config.of_class())
