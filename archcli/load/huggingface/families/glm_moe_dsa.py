"""GLM-5, whose layers have an indexer: GlmMoeDsaConfig and GlmMoeDsaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.deepseek_sparse import (
    ALIASES,
    DSA_DEFAULTS,
    index_sources,
    index_types,
    sparse_deepseek,
    sparse_deepseek_weights,
)

MODEL_TYPES = ("glm_moe_dsa",)
DEFAULTS = {
    **DSA_DEFAULTS,
    "vocab_size": 154880,
    "hidden_size": 6144,
    "intermediate_size": 12288,
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "q_lora_rank": 2048,
    "v_head_dim": 256,
    "qk_nope_head_dim": 192,
    "n_group": 1,
    "topk_group": 1,
    "max_position_embeddings": 202752,
    "rms_norm_eps": 1e-5,
    "index_n_heads": 32,
}


def mapping(config: Config) -> Mapped:
    """As DeepSeek-V3.2; indexers pair neighbours as the attention does, and layers may share them."""
    config = config.of_class(DEFAULTS, **ALIASES)
    return sparse_deepseek(config, sources=index_sources(config, index_types(config)))


def weights(config: Config) -> Weights:
    """The names of DeepSeek-V3, and of the indexers."""
    return sparse_deepseek_weights(config.of_class(DEFAULTS, **ALIASES))
