"""ERNIE 4.5 VL's text part: Ernie4_5_VLMoeTextConfig and Ernie4_5_VLMoeForConditionalGeneration."""

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import by_types, experts, shared_experts, with_networks
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.load.huggingface.weights.map import Auxiliary, Parts, Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, SHARED

MODEL_TYPES = ("ernie4_5_vl_moe_text",)
ROUTER = {"correction": True, "correction_is": "parameter"}
HELD = ("image_router", "image_gate_up", "image_down")
"""What a layer holds for the tokens of images: a router and its experts."""


def mapping(config: Config) -> Mapped:
    """As ERNIE 4.5 with experts; those for the tokens of images are held, and text does not reach them."""
    config = config.of_class(num_experts="moe_num_experts", num_experts_per_tok="moe_k")
    config.ignore("moe_norm_min")
    bias, width, count = config.flag("use_bias"), head_dim(config), config.layers()
    attend = attention(config, width, bias=bias, position=rope(config, width, pairing="interleaved"))
    layer = {"kind": "pre_norm", "attention": attend}
    routed = by_types(config, lambda: [index > 0 for index in range(count)])
    own, of_images = _widths(config)
    expert = {**gated(config), "d_ff": own}

    def sparse() -> Mapped:
        every = shared_experts(
            config, {**gated(config, bias=bias), "d_ff": own}, key="moe_num_shared_experts"
        )
        return experts(config, expert=expert, router=ROUTER, shared=every)

    layers = with_networks([layer] * count, routed, lambda: gated(config, bias=bias), sparse)
    if True in routed:
        held = _held(config, of_images.value)
        made = {id(layer): {**layer, "unread": held} for layer in layers if layer["ffn"]["kind"] == "moe"}
        layers = [made.get(id(layer), layer) for layer in layers]
        config.note("experts for the tokens of images are counted as parameters; text does not reach them")
    return decoder(config, rmsnorm(config), layers)


def _widths(config: Config) -> tuple[ConfigValue[int], ConfigValue[int]]:
    """The widths of an expert for text and of one for images."""
    widths = config.value("moe_intermediate_size")
    if not isinstance(widths.value, list) or [type(width) for width in widths.value] != [int, int]:
        what = f"moe_intermediate_size must be two whole numbers, not {short_repr(widths.value)}"
        raise config.error(what, at=widths.place)
    return widths.derive(widths.value[0]), widths.derive(widths.value[1])


def _held(config: Config, d_ff: int) -> Mapped:
    """The shapes of what a layer holds for the tokens of images."""
    n, d_model = config.size("num_experts").value, config.size("hidden_size").value
    return dict(zip(HELD, ([n, d_model], [n, 2 * d_ff, d_model], [n, d_model, d_ff]), strict=True))


WEIGHTS: Weights = {
    **LLAMA,
    **SHARED,
    **{name.replace("mlp.", "mlp.text_moe."): rule for name, rule in EXPERTS.items()},
    "[model.]layers.*.mlp.text_moe.gate.moe_statics.e_score_correction_bias": Parts(
        ("layers.*.ffn.correction.weight",), flat=True
    ),
    "[model.]layers.*.mlp.vision_moe.gate.weight": "layers.*.image_router.weight",
    "[model.]layers.*.mlp.vision_moe.experts.gate_up_proj": "layers.*.image_gate_up.weight",
    "[model.]layers.*.mlp.vision_moe.experts.down_proj": "layers.*.image_down.weight",
    "[model.]layers.*.mlp.vision_moe.gate.moe_statics.e_score_correction_bias": Auxiliary(TOWER),
}
"""Names in memory: files number the experts of text and of images as one, and stack their biases."""
