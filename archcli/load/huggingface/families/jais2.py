"""Jais 2: Jais2Config and Jais2ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_defaults, llama_like

MODEL_TYPES = ("jais2",)
DEFAULTS = llama_defaults(
    "rms_norm_eps",
    vocab_size=150272,
    hidden_size=3328,
    intermediate_size=26624,
    num_attention_heads=26,
    hidden_act="relu2",
    max_position_embeddings=8192,
    layer_norm_eps=1e-5,
    attention_bias=True,
    mlp_bias=True,
)
WEIGHTS = LLAMA


def mapping(config: Config) -> Mapped:
    """As Llama with LayerNorm, and an ungated network of squared ReLU."""
    config = config.of_class(DEFAULTS)
    ffn = mlp(config, config.size("intermediate_size"), "hidden_act", bias=config.flag("mlp_bias"))
    norm = layernorm(config.number("layer_norm_eps"))
    return llama_like(config, heads={"bias": config.flag("attention_bias")}, ffn=ffn, norm=norm)
