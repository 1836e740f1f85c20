"""Small convolutional networks: MobileNet 1 and 2, EfficientNet."""

from __future__ import annotations

from math import ceil

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Rule, Weights
from archcli.load.huggingface.whole.conv_like import (
    CLASSIFIER,
    batchnorm,
    check_width,
    convolution,
    convolved,
    divisible,
    named_unit,
    size_list,
    stem,
    steps_layer,
)

STRIDES_1 = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
"""Of the layers of MobileNet; arXiv:1704.04861 table 1."""
CHANNELS_2 = (16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320)
STRIDES_2 = (2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1)
"""Widths and strides of the layers of MobileNetV2; arXiv:1801.04381 table 2."""
FIRST, LAST = 32, 1280
"""Channels of the stem and behind the last layer, before they are scaled."""
USUAL_STRIDE = 32
MOMENTUM_1, MOMENTUM_2 = 0.9997, 0.997


def _padding(config: Config) -> Mapped:
    """Padding by TensorFlow's rule, or the same on all sides."""
    return {"same": True} if config.flag("tf_padding").value else {}


def _v1_width(config: Config, depth: int) -> int:
    return max(int(depth * config.number("depth_multiplier").value), config.count("min_depth").value)


def _v1(config: Config) -> Mapped:
    """MobileNet: a kernel for each channel, then a product of each place."""
    config.only_architectures("MobileNetV1Model", f"MobileNetV1{CLASSIFIER}")
    config.ignore("classifier_dropout_prob")
    norm = batchnorm(config.number("layer_norm_eps"), momentum=MOMENTUM_1)
    unit: Mapped = {"norm": norm, "activation": hf.activation(config, "hidden_act"), **_padding(config)}
    depth = FIRST
    width, layers = _v1_width(config, depth), []
    front_end = stem(config, [convolution(width, stride=2, **unit)])
    for i, stride in enumerate(STRIDES_1):
        depth = depth * 2 if stride > 1 or not i else depth
        steps = [
            convolution(stride=stride, depthwise=True, **unit),
            convolution(_v1_width(config, depth), 1, **unit),
        ]
        layers.append(steps_layer(steps))
    return convolved(config, width, front_end, layers, norm=norm)


def _v1_names(_: Config) -> Weights:
    base = "[mobilenet_v1.]"
    names: dict[str, Rule] = {
        **named_unit(f"{base}conv_stem", "front_end.steps.0"),
        "classifier.*": "classifier.*",
    }
    for i in range(2 * len(STRIDES_1)):
        names |= named_unit(f"{base}layer.{i}", f"layers.{i // 2}.steps.{i % 2}")
    return names


def _v2_width(config: Config, channels: float) -> int:
    scaled = round(channels * config.number("depth_multiplier").value)
    return _rounded(config, scaled)


def _rounded(config: Config, channels: int) -> int:
    return divisible(channels, config.size("depth_divisible_by").value, config.count("min_depth").value)


def _v2(config: Config) -> Mapped:
    """MobileNetV2: narrow layers that are wide within."""
    config.only_architectures("MobileNetV2Model", f"MobileNetV2{CLASSIFIER}")
    config.ignore("classifier_dropout_prob", "semantic_loss_ignore_index")
    config.only("output_stride", USUAL_STRIDE)
    norm = batchnorm(config.number("layer_norm_eps"), momentum=MOMENTUM_2)
    unit: Mapped = {"norm": norm, "activation": hf.activation(config, "hidden_act"), **_padding(config)}
    plain: Mapped = {"norm": norm, **_padding(config)}
    widths, inner = [_v2_width(config, c) for c in CHANNELS_2], _v2_width(config, FIRST)
    expands = not config.flag("first_layer_is_expansion").value
    front_end = stem(
        config,
        [
            convolution(inner, stride=2, **unit),
            *([convolution(inner, 1, **unit)] if expands else []),
            convolution(depthwise=True, **unit),
            convolution(widths[0], 1, **plain),
        ],
    )
    ratio, layers = config.number("expand_ratio").value, []
    for stride, width, out in zip(STRIDES_2, widths, widths[1:], strict=False):
        steps = [
            convolution(_rounded(config, round(width * ratio)), 1, **unit),
            convolution(stride=stride, depthwise=True, **unit),
            convolution(out, 1, **plain),
        ]
        layers.append(steps_layer(steps, residual=stride == 1 and width == out))
    fine = config.flag("finegrained_output").value and config.number("depth_multiplier").value < 1
    layers.append(steps_layer([convolution(LAST if fine else _v2_width(config, LAST), 1, **unit)]))
    return convolved(config, widths[0], front_end, layers, norm=norm)


def _v2_names(config: Config) -> Weights:
    base = "[mobilenet_v2.]"
    first = ["first_conv", "expand_1x1", "conv_3x3", "reduce_1x1"]
    if config.flag("first_layer_is_expansion").value:
        first.remove("expand_1x1")
    names: dict[str, Rule] = {"classifier.*": "classifier.*"}
    for i, part in enumerate(first):
        names |= named_unit(f"{base}conv_stem.{part}", f"front_end.steps.{i}")
    for i, part in enumerate(("expand_1x1", "conv_3x3", "reduce_1x1")):
        names |= named_unit(f"{base}layer.*.{part}", f"layers.*.steps.{i}")
    return {**names, **named_unit(f"{base}conv_1x1", f"layers.{len(STRIDES_2)}.steps.0")}


EfficientBlock = tuple[int, int, int, int, int, bool]
HALVED = 2
"""The stride of layers that halve the grid, the only one but 1."""
LISTS = ("in_channels", "out_channels", "strides", "kernel_sizes", "expand_ratios", "num_block_repeats")


def _filters(config: Config, channels: float) -> int:
    wide = channels * config.number("width_coefficient").value
    return divisible(wide, config.size("depth_divisor").value)


def _efficient_blocks(config: Config) -> list[EfficientBlock]:
    """(width, out, stride, kernel, ratio, whether it is a stage's first) of each layer."""
    stages = len(size_list(config, LISTS[0]))
    lists = [size_list(config, name, stages) for name in LISTS]
    blocks: list[EfficientBlock] = []
    read, deeper = _filters(config, FIRST), config.number("depth_coefficient").value
    for before, after, stride, kernel, ratio, repeats in zip(*lists, strict=True):
        width, out = _filters(config, before), _filters(config, after)
        check_width(config, "in_channels", width, read)
        read, depth = out, ceil(deeper * repeats)
        if not 1 <= depth <= hf.MOST_LAYERS:
            what = f"depth_coefficient gives a stage {depth} layers"
            raise config.error(what, at=config.place("depth_coefficient"))
        blocks.append((width, out, stride, kernel, ratio, True))
        blocks += [(out, out, 1, kernel, ratio, False)] * (depth - 1)
    return blocks


def _efficientnet(config: Config) -> Mapped:
    """EfficientNet: MobileNetV2's layers with squeeze-and-excitation."""
    config.only_architectures("EfficientNetModel", f"EfficientNet{CLASSIFIER}")
    config.ignore("dropout_rate", "drop_connect_rate", "num_hidden_layers")
    config.only("pooling_type", "mean")
    top, hidden = _filters(config, LAST), config.size("hidden_dim")
    if hidden.value != top:
        what = f"hidden_dim {hidden} is not the width of the last layer, {top}"
        raise config.error(what, at=hidden.place)
    norm = batchnorm(config.number("batch_norm_eps"), momentum=config.number("batch_norm_momentum"))
    unit: Mapped = {"norm": norm, "activation": hf.activation(config, "hidden_act")}
    width = _filters(config, FIRST)
    front_end = stem(config, [convolution(width, stride=2, around=[0, 1, 0, 1], **unit)])
    layers = [
        _efficient_layer(config, number, block, unit)
        for number, block in enumerate(_efficient_blocks(config))
    ]
    layers.append(steps_layer([convolution(top, 1, **unit)]))
    return convolved(config, width, front_end, layers, norm=norm)


def _odd(config: Config) -> list[int]:
    """Numbers of the layers that read grids of odd sides."""
    entry = config.value("depthwise_padding", default=())
    if not isinstance(entry.value, list | tuple):
        what = f"depthwise_padding must be a list of numbers, not {hf.short_repr(entry.value)}"
        raise config.error(what, at=entry.place)
    return [*entry.value]


def _efficient_layer(config: Config, number: int, block: EfficientBlock, unit: Mapped) -> Mapped:
    """Expand, a kernel for each channel, squeeze-and-excitation, and narrow again."""
    width, out, stride, kernel, ratio, is_first = block
    half = kernel // 2
    near = half if number in _odd(config) else half - 1
    if stride > HALVED:
        raise config.error(f"a stride of {stride} is not supported", at=config.place("strides"))
    around = {"around": [near, half, near, half]} if stride == HALVED else {}
    # the class hands its momentum to all norms but this one
    expand = {**unit, "norm": batchnorm(config.number("batch_norm_eps"))}
    squeezed = max(1, int(width * config.number("squeeze_expansion_ratio").value))
    steps = [
        *([convolution(width * ratio, 1, **expand)] if ratio != 1 else []),
        convolution(None, kernel, stride=stride, depthwise=True, **around, **unit),
        {"kind": "squeeze", "width": squeezed, "activation": unit["activation"]},
        convolution(out, 1, norm=unit["norm"]),
    ]
    return steps_layer(steps, residual=stride == 1 and not is_first)


def _efficient_names(config: Config) -> Weights:
    base, blocks = "[efficientnet.]", _efficient_blocks(config)
    words = {"convolution": "conv", "batchnorm": "norm"}
    names: dict[str, Rule] = {
        **named_unit(f"{base}embeddings", "front_end.steps.0", words),
        "classifier.*": "classifier.*",
    }
    for number, block in enumerate(blocks):
        theirs, step = f"{base}encoder.blocks.{number}", 0
        if block[4] != 1:
            names |= named_unit(
                f"{theirs}.expansion",
                f"layers.{number}.steps.0",
                {"expand_conv": "conv", "expand_bn": "norm"},
            )
            step = 1
        ours = f"layers.{number}.steps"
        names |= {
            f"{theirs}.depthwise_conv.depthwise_conv.*": f"{ours}.{step}.conv.*",
            f"{theirs}.depthwise_conv.depthwise_norm.*": f"{ours}.{step}.norm.*",
            f"{theirs}.squeeze_excite.reduce.*": f"{ours}.{step + 1}.reduce.*",
            f"{theirs}.squeeze_excite.expand.*": f"{ours}.{step + 1}.expand.*",
            f"{theirs}.projection.project_conv.*": f"{ours}.{step + 2}.conv.*",
            f"{theirs}.projection.project_bn.*": f"{ours}.{step + 2}.norm.*",
        }
    top = f"layers.{len(blocks)}.steps.0"
    return {
        **names,
        f"{base}encoder.top_conv.*": f"{top}.conv.*",
        f"{base}encoder.top_bn.*": f"{top}.norm.*",
    }


FAMILIES = {
    "mobilenet_v1": Family("MobileNet: MobileNetV1Config and its classes.", _v1, _v1_names),
    "mobilenet_v2": Family("MobileNetV2: MobileNetV2Config and its classes.", _v2, _v2_names),
    "efficientnet": Family(
        "EfficientNet: EfficientNetConfig and its classes.", _efficientnet, _efficient_names
    ),
}
