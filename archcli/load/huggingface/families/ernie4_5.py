"""ERNIE 4.5, dense, with experts, and beside images."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Weights
from archcli.load.huggingface.whole.llama_like import llama_like


def _ernie(config: Config) -> Mapped:
    """As Llama with one flag for all biases and interleaved RoPE; in PaddleOCR-VL RoPE pairs halves."""
    # PaddleOCR-VL's positions have three axes, which are equal for text
    pairing, bias = "interleaved" if config.model_type == "ernie4_5" else "half", config.flag("use_bias")
    heads = {"bias": bias, "position": hf.rope(config, hf.head_dim(config), pairing=pairing)}
    return llama_like(config, heads=heads, ffn=hf.gated(config, bias=bias), tied=True)


ROUTER = {"correction": True, "correction_is": "parameter"}
LEAST_NORM = 1e-6
"""The largest moe_norm_min that is ignored: the weights of chosen experts hardly sum to less."""


def _ernie_moe(config: Config) -> Mapped:
    """As dense ERNIE 4.5, with routed and shared experts in some layers, chosen with a correction bias."""
    if config.number("moe_norm_min").value > LEAST_NORM:
        what = f"moe_norm_min above {LEAST_NORM} is not supported"
        raise config.error(what, at=config.place("moe_norm_min"))
    bias, width = config.flag("use_bias"), hf.head_dim(config)
    attend = hf.attention(config, width, bias=bias, position=hf.rope(config, width, pairing="interleaved"))
    layer = {"kind": "pre_norm", "attention": attend}
    expert = hf.gated(config, width="moe_intermediate_size")

    def sparse() -> Mapped:
        shared = hf.shared_experts(
            config, hf.gated(config, width="moe_intermediate_size", bias=bias), key="moe_num_shared_experts"
        )
        return hf.experts(config, expert=expert, router=ROUTER, shared=shared)

    routed = _ernie_moe_routed(config)
    layers = hf.with_networks([layer] * len(routed), routed, lambda: hf.gated(config, bias=bias), sparse)
    return hf.decoder(config, hf.rmsnorm(config), layers, tied=True, head={"bias": bias} if bias else None)


def _ernie_moe_routed(config: Config) -> list[bool]:
    """Which layers have experts: each moe_layer_interval-th, from the first to the last with any."""
    count, step = config.layers(), config.size("moe_layer_interval").value
    first, last = (int(config.number(f"moe_layer_{end}_index").value) for end in ("start", "end"))
    last = count - 1 if last == -1 else last
    return [(index + 1) % step == 0 and first <= index <= last for index in range(count)]


ERNIE_MOE_WEIGHTS: Weights = {
    **hf.LLAMA,
    **hf.EXPERTS,
    **hf.SHARED,
    **{
        f"[model.]layers.*.mlp.{gate}moe_statics.e_score_correction_bias": Parts(
            ("layers.*.ffn.correction.weight",), flat=1
        )
        for gate in ("", "gate.")
    },
}


ERNIE_VL_UNREAD = (
    "image_router",
    "image_gate_proj",
    "image_up_proj",
    "image_down_proj",
    "image_correction",
)
"""Weights of a layer for the tokens of images: a router, its experts, and its correction, which is frozen."""


def _ernie_vl(config: Config) -> Mapped:
    """As ERNIE 4.5 with experts, and with experts for the tokens of images, which text does not reach."""
    config.ignore("moe_norm_min")
    bias, width, count = config.flag("use_bias"), hf.head_dim(config), config.layers()
    attend = hf.attention(config, width, bias=bias, position=hf.rope(config, width, pairing="interleaved"))
    layer = {"kind": "pre_norm", "attention": attend}
    routed = hf.by_types(config, lambda: [index > 0 for index in range(count)])
    d_ff, image_d_ff = _ernie_vl_widths(config)
    expert = {**hf.gated(config), "d_ff": d_ff}

    def sparse() -> Mapped:
        shared = hf.shared_experts(
            config, {**hf.gated(config, bias=bias), "d_ff": d_ff}, key="moe_num_shared_experts"
        )
        return hf.experts(config, expert=expert, router=ROUTER, shared=shared)

    layers = hf.with_networks([layer] * count, routed, lambda: hf.gated(config, bias=bias), sparse)
    if True in routed:
        unread = _ernie_vl_unread(config, image_d_ff.value)
        # by identity, so that equal layers stay one object: `groups` writes each object out
        extended = {id(it): {**it, **unread} for it in layers if it["ffn"]["kind"] == "moe"}
        layers = [extended.get(id(layer), layer) for layer in layers]
        config.note("experts for the tokens of images are counted as parameters; text does not reach them")
    return hf.decoder(config, hf.rmsnorm(config), layers)


def _ernie_vl_widths(config: Config) -> tuple[ConfigValue[int], ConfigValue[int]]:
    """The widths of an expert for text and of one for images."""
    widths = config.value("moe_intermediate_size")
    if not isinstance(widths.value, list) or [type(width) for width in widths.value] != [int, int]:
        what = f"moe_intermediate_size must be two whole numbers, not {hf.short_repr(widths.value)}"
        raise config.error(what, at=widths.place)
    return widths.derive(widths.value[0]), widths.derive(widths.value[1])


def _ernie_vl_unread(config: Config, d_ff: int) -> Mapped:
    """The shapes of a layer's weights for the tokens of images."""
    n, d_model = config.size("num_experts").value, config.size("hidden_size").value
    shapes = ([n, d_model], [n, d_ff, d_model], [n, d_ff, d_model], [n, d_model, d_ff], n)
    return {
        "unread": dict(zip(ERNIE_VL_UNREAD, shapes, strict=True)),
        "unread_frozen": [ERNIE_VL_UNREAD[-1]],
    }


ERNIE_VL_WEIGHTS: Weights = {
    **hf.LLAMA,
    **hf.SHARED,
    **{name.replace("mlp.", "mlp.text_moe."): rule for name, rule in hf.EXPERTS.items()},
    "[model.]layers.*.mlp.text_moe.gate.moe_statics.e_score_correction_bias": Parts(
        ("layers.*.ffn.correction.weight",), flat=1
    ),
    "[model.]layers.*.mlp.vision_moe.gate.weight": hf.idle("layers.*.image_router.weight"),
    "[model.]layers.*.mlp.vision_moe.experts.gate_up_proj": Parts(
        ("layers.*.image_gate_proj.weight", "layers.*.image_up_proj.weight"), axis=1, linear=True
    ),
    "[model.]layers.*.mlp.vision_moe.experts.down_proj": hf.idle("layers.*.image_down_proj.weight"),
    "[model.]layers.*.mlp.vision_moe.gate.moe_statics.e_score_correction_bias": Parts(
        ("layers.*.image_correction.weight",), flat=1
    ),
    # files hold routers as [in, out], that of images as weight_1 of the same module
    "[model.]layers.*.mlp.gate.weight": Parts(("layers.*.ffn.router.weight",), transposed=True),
}
"""Names in memory, but of routers: files number the experts of all tokens as one, and stack their biases."""


FAMILIES = {
    **dict.fromkeys(
        ("ernie4_5", "paddleocr_vl_text"),
        Family(
            "ERNIE 4.5, dense, and the text part of PaddleOCR-VL: Ernie4_5Config and Ernie4_5ForCausalLM.",
            _ernie,
            hf.LLAMA,
        ),
    ),
    "ernie4_5_moe": Family(
        "ERNIE 4.5 with experts: Ernie4_5_MoeConfig and Ernie4_5_MoeForCausalLM.",
        _ernie_moe,
        ERNIE_MOE_WEIGHTS,
        aliases={"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
        defaults={"moe_layer_end_index": -1},
    ),
    "ernie4_5_vl_moe_text": Family(
        "ERNIE 4.5 VL's text part: Ernie4_5_VLMoeTextConfig and Ernie4_5_VLMoeForConditionalGeneration.",
        _ernie_vl,
        ERNIE_VL_WEIGHTS,
        aliases={"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
    ),
}
