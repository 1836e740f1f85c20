"""PEGASUS, a summarizer: PegasusConfig and PegasusForConditionalGeneration, or PegasusForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bart_like import Wiring, bart_like, bart_weights

MODEL_TYPES = ("pegasus",)


def mapping(config: Config) -> Mapped:
    """As mBART with computed sinusoids, and without a norm after the embeddings."""
    sinusoid = {"kind": "sinusoidal", "pairing": "half"}
    return bart_like(config.of_class(), Wiring("pre_norm", sinusoid, final_norm=True, norm=False))


def weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder; sinusoids are stored."""
    return bart_weights(config.of_class(), positions=False)
