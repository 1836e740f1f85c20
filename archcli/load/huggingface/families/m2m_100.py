"""M2M-100 and NLLB, translators of many languages: M2M100Config and M2M100ForConditionalGeneration."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.whole.bart_like import Wiring, bart_like, bart_weights
from archcli.load.huggingface.whole.defaults import fairseq_sinusoid

MODEL_TYPES = ("m2m_100",)
OWN = {"vocab_size": 128112, "activation_function": "relu", "scale_embedding": True, "pad_token_id": 1}


def mapping(config: Config) -> Mapped:
    """As PEGASUS with the sinusoids of fairseq, and no bias of the logits."""
    config = config.of_class()
    position = fairseq_sinusoid(config, config.count("pad_token_id").value + 1)
    return bart_like(config, Wiring("pre_norm", position, final_norm=True, norm=False, stored_bias=False))


def weights(config: Config) -> Weights:
    """Weight names of both halves; sinusoids are not stored, or by old versions."""
    names = bart_weights(config.of_class(), positions=False)
    return {**names, "[model.]*.embed_positions.weights": Auxiliary("sinusoid: computed, not trained")}
