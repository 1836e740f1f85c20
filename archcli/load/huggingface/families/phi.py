"""Phi-1, 1.5 and 2: PhiConfig and PhiForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("phi",)


def mapping(config: Config) -> Mapped:
    """Parallel block with one norm, biases everywhere including the head; RoPE on part of each head."""
    config = config.of_class()
    width, norm = head_dim(config), layernorm(config.number("layer_norm_eps"))
    qk_norm = {"norm": norm} if config.flag("qk_layernorm") else None
    layer = {
        "kind": "parallel",
        "attention": attention(
            config, width, bias=True, position=rope(config, width, partial=0.5), qk_norm=qk_norm
        ),
        "ffn": mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    return decoder(config, norm, [layer] * config.layers(), head={"bias": True})


WEIGHTS: Weights = {
    **LLAMA,
    "[model.]layers.*.self_attn.dense.*": "layers.*.attention.o_proj.*",
    "[model.]layers.*.self_attn.q_layernorm.*": "layers.*.attention.q_norm.*",
    "[model.]layers.*.self_attn.k_layernorm.*": "layers.*.attention.k_norm.*",
    "[model.]layers.*.mlp.fc1.*": "layers.*.ffn.up_proj.*",
    "[model.]layers.*.mlp.fc2.*": "layers.*.ffn.down_proj.*",
    "[model.]final_layernorm.*": "final_norm.*",
}
