"""Chameleon, of text and image tokens: ChameleonConfig and ChameleonForConditionalGeneration."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import even_split
from archcli.load.huggingface.parts.networks import gated, layernorm
from archcli.load.huggingface.weights.names import LLAMA, QK_NORM
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("chameleon",)
TOWERS = ("vq_config",)
WEIGHTS = {
    **LLAMA,
    **QK_NORM,
    "[model.]layers.*.self_attn.q_norm.bias": "layers.*.attention.q_norm.bias",
    "[model.]layers.*.self_attn.k_norm.bias": "layers.*.attention.k_norm.bias",
}


def mapping(config: Config) -> Mapped:
    """As Llama with a LayerNorm of each query and key head of its own; swin_norm puts norms after."""
    config = config.of_class()
    config.ignore("model_parallel_size", "vocabulary_map")
    heads, hidden = config.size("num_attention_heads"), config.size("hidden_size")
    if hidden.value % heads.value:
        raise config.error(f"{heads} heads do not divide hidden_size {hidden}", at=heads.place)
    if "head_dim" in config.data and config.get("head_dim", default=None) != even_split(config):
        raise config.error("head_dim is not read by this class", "leave it out", config.place("head_dim"))
    norm = {"per": "head_distinct", "norm": layernorm(1e-5)}
    return llama_like(
        config,
        heads={"bias": config.flag("attention_bias"), "qk_norm": norm},
        ffn=gated(config, bias=config.flag("mlp_bias")),
        block={"kind": "norm_after" if config.flag("swin_norm") else "pre_norm"},
    )
