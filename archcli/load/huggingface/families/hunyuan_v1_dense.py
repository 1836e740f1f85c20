"""Hunyuan, dense (0.5B to 7B): HunYuanDenseV1Config and HunYuanDenseV1ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import head_dim
from archcli.load.huggingface.parts.rope import stretched_rope
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("hunyuan_v1_dense",)
FIXED = (
    "use_qk_norm",
    "attention_head_dim",
    "mlp_bias",
    "norm_type",
    "use_rotary_pos_emb",
    "org_vocab_size",
    "eod_token_id",
)
"""Keys of published files that the class does not read: it is as they say there."""
WEIGHTS = {
    **LLAMA,
    "[model.]layers.*.self_attn.query_layernorm.weight": "layers.*.attention.q_norm.weight",
    "[model.]layers.*.self_attn.key_layernorm.weight": "layers.*.attention.k_norm.weight",
}


def mapping(config: Config) -> Mapped:
    """As Llama, queries and keys normalized after RoPE, whose base an `alpha` stretches."""
    config = config.of_class()
    config.ignore(*FIXED)
    config.only("use_cla", None, False, default=None)
    heads = {
        "bias": config.flag("attention_bias"),
        "position": stretched_rope(config, head_dim(config)),
        "qk_norm": {"per": "head", "when": "after_rope"},
    }
    return llama_like(config, heads=heads)
