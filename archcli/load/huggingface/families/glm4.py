"""GLM-4 of April 2025 (9B and 32B): Glm4Config and Glm4ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import head_dim
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.names import GATE_UP, LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("glm4",)
WEIGHTS = {
    **LLAMA,
    "[model.]layers.*.post_self_attn_layernorm.weight": "layers.*.attention_post_norm.weight",
    "[model.]layers.*.post_mlp_layernorm.weight": "layers.*.ffn_post_norm.weight",
    "[model.]layers.*.mlp.gate_up_proj.weight": GATE_UP,
}


def mapping(config: Config) -> Mapped:
    """As GLM of 2024, with a norm after each sublayer too; interleaved RoPE on half of each head."""
    config = config.of_class()
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    place = rope(config, head_dim(config), pairing="interleaved", partial=0.5)
    return llama_like(config, heads={"bias": bias, "position": place}, block={"kind": "sandwich"})
