"""Llama 4, its text part: Llama4TextConfig and Llama4ForCausalLM."""

from __future__ import annotations

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.common import attention, decoder, gated, head_dim, rmsnorm
from archcli.load.huggingface.config import Config, Mapped, shown
from archcli.load.huggingface.names import LLAMA
from archcli.load.huggingface.rope import rope
from archcli.load.huggingface.weights import Take, Weights

MODEL_TYPES = ("llama4_text", "llama4")
TEXT_TYPE = {"llama4": "llama4_text"}

DEFAULTS = {
    "vocab_size": 202048,
    "hidden_size": 5120,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "num_experts_per_tok": 1,
    "num_local_experts": 16,
    "interleave_moe_layer_step": 1,
    "use_qk_norm": True,
    "no_rope_layer_interval": 4,
    "attention_chunk_size": 8192,
    "attn_temperature_tuning": True,
    "floor_scale": 8192,
    "attn_scale": 0.1,
    "attention_bias": False,
}
LAYER_TYPES = ("chunked_attention", "full_attention")


def mapping(config: Config) -> Mapped:
    """Layers with RoPE attend within chunks, those without to everything; some or all have experts, one of them chosen, one shared."""
    config = config.of_class(DEFAULTS)
    config.ignore(
        "for_llm_compressor", "intermediate_size_mlp"
    )  # the latter is not read where all layers have experts
    count = config.layers()
    step = config.size("interleave_moe_layer_step")
    sparse = config.get("moe_layers", default=[*range(step - 1, count, step)])
    if not isinstance(sparse, list):
        raise ArchError(Problem(f"{config.file}: moe_layers must be a list, not {shown(sparse)}"))
    interval = config.size("no_rope_layer_interval")
    turned = config.get("no_rope_layers", default=[]) and config.per_layer("no_rope_layers", count)
    turned = turned or [(i + 1) % interval != 0 for i in range(count)]
    types = config.per_layer("layer_types", count) or [
        LAYER_TYPES[0] if turns else LAYER_TYPES[1] for turns in turned
    ]
    unknown = [kind for kind in types if kind not in LAYER_TYPES]
    if unknown:
        raise ArchError(
            Problem(
                f"{config.file}: layer_types {shown(unknown[0])} is not supported",
                "known: " + ", ".join(LAYER_TYPES),
            )
        )
    layers = [
        {
            "kind": "pre_norm",
            "attention": _attention(config, turns=bool(turned[i]), chunked=types[i] == LAYER_TYPES[0]),
            "ffn": _experts(config) if i in sparse else gated(config, width="intermediate_size_mlp"),
        }
        for i in range(count)
    ]
    return decoder(config, rmsnorm(config), layers)


def _attention(config: Config, *, turns: bool, chunked: bool) -> Mapped:
    """`no_rope_layers` is 1 where RoPE is used. A norm without weights follows RoPE; without it, queries are tempered."""
    width = head_dim(config)
    more: Mapped = {}
    if chunked and not config.stated_null("attention_chunk_size"):
        more["chunk"] = config.size("attention_chunk_size")
    if turns and config.flag("use_qk_norm"):
        more["qk_norm"] = {"when": "after_rope", "norm": {**rmsnorm(config), "weight": False}}
    if not turns and config.get("attn_temperature_tuning"):
        more["temperature"] = {
            "scale": config.number("attn_scale"),
            "floor_scale": config.size("floor_scale"),
        }
    position = rope(config, width, theta=500000.0, pairing="interleaved") if turns else {"kind": "none"}
    return attention(config, width, bias=config.flag("attention_bias"), position=position, **more)


def _experts(config: Config) -> Mapped:
    """The sigmoid of the chosen expert's logit scales its input; the shared expert is as wide as a routed one."""
    expert = gated(config)
    return {
        "kind": "moe",
        "n_experts": config.size("num_local_experts"),
        "top_k": config.size("num_experts_per_tok"),
        "expert": expert,
        "router": {"scores": "sigmoid", "normalized": False},
        "shared": expert,
        "weigh": "input",
    }


WEIGHTS: Weights = {
    **{name.replace(".mlp.", ".feed_forward."): rule for name, rule in LLAMA.items()},
    **{
        f"[model.]layers.*.feed_forward.shared_expert.{name}_proj.weight": f"layers.*.ffn.shared.{name}_proj.weight"
        for name in ("gate", "up", "down")
    },
    "[model.]layers.*.feed_forward.router.weight": "layers.*.ffn.router.weight",
    "[model.]layers.*.feed_forward.experts.gate_up_proj": Take(
        ("layers.*.ffn.experts.gate_proj.weight", "layers.*.ffn.experts.up_proj.weight"),
        axis=1,
        transposed=True,
    ),
    "[model.]layers.*.feed_forward.experts.down_proj": Take(
        ("layers.*.ffn.experts.down_proj.weight",), transposed=True
    ),
}
"""Experts are stacked and stored [in, out]."""
