"""BitNet b1.58: BitNetConfig and BitNetForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import square_heads
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("bitnet",)
WEIGHTS = {
    **LLAMA,
    "[model.]layers.*.self_attn.attn_sub_norm.weight": "layers.*.attention.inner_norm.weight",
    "[model.]layers.*.mlp.ffn_sub_norm.weight": "layers.*.ffn.inner_norm.weight",
}


def mapping(config: Config) -> Mapped:
    """As Llama, with a norm before the output projection and before the down projection."""
    config = config.of_class()
    square_heads(config)
    norm, ffn = rmsnorm(config), gated(config)
    heads = {"bias": config.flag("attention_bias"), "inner_norm": norm}
    return llama_like(config, heads=heads, ffn={**ffn, "inner_norm": norm})
