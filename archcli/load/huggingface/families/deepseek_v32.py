"""DeepSeek-V3.2, V3 with an indexer in each layer: DeepseekV32Config and DeepseekV32ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.deepseek_sparse import ALIASES, sparse_deepseek, sparse_deepseek_weights

MODEL_TYPES = ("deepseek_v32",)


def mapping(config: Config) -> Mapped:
    """As DeepSeek-V3; an indexer pairs the halves of its rotary dims, the attention neighbours."""
    return sparse_deepseek(config.of_class(**ALIASES), "half")


def weights(config: Config) -> Weights:
    """The names of DeepSeek-V3, and of the indexers."""
    return sparse_deepseek_weights(config.of_class(**ALIASES))
