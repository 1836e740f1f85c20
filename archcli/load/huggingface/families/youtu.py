"""Youtu-LLM: YoutuConfig and YoutuForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import latent_attention
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.names import LLAMA, MLA

MODEL_TYPES = ("youtu",)
WEIGHTS = {**LLAMA, **MLA}


def mapping(config: Config) -> Mapped:
    """Dense layers with the latent attention of DeepSeek-V3."""
    config = config.of_class()
    config.ignore("embedding_initializer_range", "mlp_bias")
    attention = latent_attention(config, "interleaved" if config.flag("rope_interleave") else "half")
    layer = {"kind": "pre_norm", "attention": attention, "ffn": gated(config)}
    return decoder(config, rmsnorm(config), [layer] * config.layers(), tied=True)
