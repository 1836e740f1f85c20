"""DeepSeek-V3.2, V3 with an indexer in each layer: DeepseekV32Config and DeepseekV32ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.deepseek_sparse import (
    ALIASES,
    DSA_DEFAULTS,
    sparse_deepseek,
    sparse_deepseek_weights,
)

MODEL_TYPES = ("deepseek_v32",)
DEFAULTS = {
    **DSA_DEFAULTS,
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "q_lora_rank": 1536,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "n_group": 8,
    "topk_group": 4,
    "max_position_embeddings": 163840,
    "rms_norm_eps": 1e-6,
    "index_n_heads": 64,
}


def mapping(config: Config) -> Mapped:
    """As DeepSeek-V3; an indexer pairs the halves of its rotary dims, the attention neighbours."""
    return sparse_deepseek(config.of_class(DEFAULTS, **ALIASES), "half")


def weights(config: Config) -> Weights:
    """The names of DeepSeek-V3, and of the indexers."""
    return sparse_deepseek_weights(config.of_class(DEFAULTS, **ALIASES))
