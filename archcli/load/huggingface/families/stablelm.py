"""StableLM 3B and StableLM 2: StableLmConfig and StableLmForCausalLM.

Their first files call it stablelm_epoch, by the keys of its configuration_stablelm_epoch.py.
"""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, even_split
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, layernorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("stablelm", "stablelm_epoch")


FIRST_ALIASES = {"layer_norm_eps": "norm_eps", "partial_rotary_factor": "rope_pct"}


def mapping(config: Config) -> Mapped:
    """LayerNorm, RoPE on a quarter of each head, SwiGLU.

    The 12B is parallel with one norm, and normalizes queries and keys head by head.
    """
    first = config.get("model_type", default="") == "stablelm_epoch"
    config = config.of_class(like="stablelm", **(FIRST_ALIASES if first else {}))
    eps, width = config.number("layer_norm_eps"), even_split(config)
    bias = ["q", "k", "v"] if config.flag("use_qkv_bias") else False
    qk_norm = (
        {"per": "head_distinct", "norm": layernorm(eps, bias=False)} if config.flag("qk_layernorm") else None
    )
    layer = {
        "kind": "parallel" if config.flag("use_parallel_residual") else "pre_norm",
        "attention": attention(
            config, width, bias=bias, position=rope(config, width, partial=0.25), qk_norm=qk_norm
        ),
        "ffn": gated(config),
    }
    return decoder(config, layernorm(eps), [layer] * config.layers())


WEIGHTS: Weights = {
    **LLAMA,
    "[model.]layers.*.self_attn.q_layernorm.norms.#.weight": "layers.*.attention.q_norm.weight",
    "[model.]layers.*.self_attn.k_layernorm.norms.#.weight": "layers.*.attention.k_norm.weight",
}
