"""Youtu-LLM: YoutuConfig and YoutuForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import latent_attention
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.names import LLAMA, MLA

MODEL_TYPES = ("youtu",)
DEFAULTS = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-6,
    "rope_interleave": True,
    "attention_bias": False,
    "tie_word_embeddings": True,
}
WEIGHTS = {**LLAMA, **MLA}


def mapping(config: Config) -> Mapped:
    """Dense layers with the latent attention of DeepSeek-V3."""
    config = config.of_class(DEFAULTS)
    config.ignore("embedding_initializer_range", "mlp_bias")
    attention = latent_attention(config, "interleaved" if config.flag("rope_interleave") else "half")
    layer = {"kind": "pre_norm", "attention": attention, "ffn": gated(config)}
    return decoder(config, rmsnorm(config), [layer] * config.layers(), tied=True)
