"""mBART, BART for many languages: MBartConfig and MBartForConditionalGeneration, or MBartForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bart_like import LEARNED, Wiring, bart_like, bart_weights

MODEL_TYPES = ("mbart",)


def mapping(config: Config) -> Mapped:
    """As BART with pre-norm, and so with a norm at the end of each half."""
    return bart_like(config.of_class(), Wiring("pre_norm", LEARNED, final_norm=True))


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder."""
    return bart_weights(config.of_class())
