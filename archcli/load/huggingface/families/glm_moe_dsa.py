"""GLM-5, whose layers have an indexer: GlmMoeDsaConfig and GlmMoeDsaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.deepseek_sparse import (
    ALIASES,
    index_sources,
    index_types,
    sparse_deepseek,
    sparse_deepseek_weights,
)

MODEL_TYPES = ("glm_moe_dsa",)


def mapping(config: Config) -> Mapped:
    """As DeepSeek-V3.2; indexers pair neighbours as the attention does, and layers may share them."""
    config = config.of_class(**ALIASES)
    return sparse_deepseek(config, sources=index_sources(config, index_types(config)))


def weights(config: Config) -> Weights:
    """The names of DeepSeek-V3, and of the indexers."""
    return sparse_deepseek_weights(config.of_class(**ALIASES))
