"""BTLM and Jais of 2023, whose classes are in their repositories: BTLMConfig and JAISConfig."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped, without_none
from archcli.load.huggingface.parts.attention import attention, even_split
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import layernorm, mlp
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import GPT2
from archcli.load.huggingface.whole.gpt_like import GPT_ALIASES, SUMMARY, inner_width

MODEL_TYPES = ("btlm", "jais")

OWN = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "position_embedding_type": "learned",
    "scale_attn_weights": True,
    "tie_word_embeddings": True,
}
RUNNING = ("reorder_and_upcast_attn", "alibi_scaling", *SUMMARY)


def mapping(config: Config) -> Mapped:
    """GPT-2 with ALiBi, SwiGLU and the scales of maximal update parametrization (arXiv:2309.11568).

    Jais has the keys of these scales without `mup_`.
    """
    config = config.of_class(OWN, **GPT_ALIASES)
    config.ignore(*RUNNING)
    config.only("scale_attn_by_inverse_layer_idx", False, default=False)
    config.only("scale_attn_weights", True)
    config.only("position_embedding_type", "learned", "alibi")
    has_alibi = config.get("position_embedding_type") == "alibi"
    width, norm = even_split(config), layernorm(config.number("layer_norm_epsilon"))
    by_width = config.flag("mup_scale_qk_dot_by_d", "scale_qk_dot_by_d", default=False)
    position = {"kind": "alibi"} if has_alibi else {"kind": "none"}
    scale = width.derive(1 / width.value) if by_width else None
    layer = {
        "kind": "pre_norm",
        "attention": attention(config, width, bias=True, position=position, scale=scale),
        "ffn": _network(config),
    }
    learned = None if has_alibi else {"kind": "learned"}
    scaled = config.number("mup_embeddings_scale", "embeddings_scale", default=1.0)
    return decoder(
        config,
        norm,
        [layer] * config.layers(),
        embedding=without_none({"scale": scaled, "position": learned}),
        head={"scale": scaled.derive(_head_scale(config))},
    )


def _head_scale(config: Config) -> float:
    """The scale of the logits: the output's alpha times the ratio of widths."""
    alpha = config.number("mup_output_alpha", default=1.0).value
    return alpha * config.number("mup_width_scale", "width_scale", default=1.0).value


def _network(config: Config) -> Mapped:
    width = inner_width(config)
    if config.get("activation_function") == "swiglu":
        return {"kind": "glu", "d_ff": width, "activation": "silu", "bias": True}
    return mlp(config, width, "activation_function")


WEIGHTS: Weights = {
    **GPT2,
    "[transformer.]h.*.mlp.c_fc2.*": Parts(("layers.*.ffn.gate_proj.*",), transposed=True),
}
