"""Helium of Kyutai: HeliumConfig and HeliumForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import square_heads
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_defaults, llama_like

MODEL_TYPES = ("helium",)
DEFAULTS = llama_defaults(
    vocab_size=48000,
    hidden_size=2560,
    intermediate_size=7040,
    num_hidden_layers=24,
    num_attention_heads=20,
    num_key_value_heads=20,
    head_dim=128,
    max_position_embeddings=4096,
    rms_norm_eps=1e-8,
    rope_theta=100000.0,
)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama with interleaved RoPE; the output projection is square and never biased."""
    config = config.of_class(DEFAULTS)
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    options = {"bias": bias, "position": rope(config, square_heads(config), pairing="interleaved")}
    return llama_like(config, heads=options, ffn=gated(config, bias=config.flag("mlp_bias")))
