"""Convolutional networks for documents: PP-LCNet and TextNet."""

from __future__ import annotations

from typing import Any

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

LCNET = [
    [[3, 16, 32, 1, False]],
    [[3, 32, 64, 2, False], [3, 64, 64, 1, False]],
    [[3, 64, 128, 2, False], [3, 128, 128, 1, False]],
    [[3, 128, 256, 2, False], *[[5, 256, 256, 1, False]] * 5],
    [[5, 256, 512, 2, True], [5, 512, 512, 1, True]],
]
"""Kernel, widths before and behind, stride, and whether it has squeeze-and-excitation, of each layer."""


def _lcnet_blocks(config: Config) -> list[tuple[int, int, list[Any]]]:
    """(stage, number there, entry) of each layer."""
    entry = config.value("block_configs", default=None)
    stages = entry.value or LCNET
    try:
        return [
            (stage, i, [*map(int, layer[:4]), bool(layer[4])])
            for stage, layers in enumerate(stages)
            for i, layer in enumerate(layers)
        ]
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        what = f"block_configs must have five entries for each layer, not {hf.short_repr(entry.value)}"
        raise config.error(what, at=entry.place) from None


def _lcnet(config: Config) -> Mapped:
    """PP-LCNet: a wide product of the mean of all places before the classifier."""
    config.only_architectures(f"PPLCNet{CLASSIFIER}")
    config.ignore("depths")
    scale, divisor = config.number("scale").value, config.size("divisor").value

    def wide(channels: int) -> int:
        return divisible(channels * scale, divisor)

    function, norm, layers = hf.activation(config, "hidden_act"), batchnorm(), []
    unit: Mapped = {"norm": norm, "activation": function}
    width = wide(config.size("stem_channels").value)
    read = width
    for _, _, (kernel, before, after, stride, squeezes) in _lcnet_blocks(config):
        check_width(config, "block_configs", wide(before), read)
        read = wide(after)
        squeezed = {
            "kind": "squeeze",
            "width": wide(before) // config.size("reduction").value,
            "activation": "relu",
            "gate": "hard_sigmoid",
        }
        steps = [
            convolution(None, kernel, stride=stride, depthwise=True, **unit),
            *([squeezed] if squeezes else []),
            convolution(wide(after), 1, **unit),
        ]
        layers.append(steps_layer(steps))
    kept = 1 - config.number("hidden_dropout_prob").value
    top = convolution(config.size("class_expand").value, 1, activation=function)
    scaled = [{"kind": "norm", "factor": kept}] if kept != 1 else []
    layers.append(steps_layer([{"kind": "mean"}, top, *scaled]))
    first = convolution(width, stride=config.size("stem_stride").value, **unit)
    return convolved(config, width, stem(config, [first], channels=3), layers, norm=norm)


def _lcnet_names(config: Config) -> Weights:
    blocks = _lcnet_blocks(config)
    names: dict[str, Rule] = {
        **named_unit("encoder.convolution", "front_end.steps.0"),
        "last_convolution.*": f"layers.{len(blocks)}.steps.1.conv.*",
        "head.*": "classifier.*",
    }
    for number, (stage, i, entry) in enumerate(blocks):
        theirs, ours = f"encoder.blocks.{stage}.layers.{i}", f"layers.{number}.steps"
        names |= named_unit(f"{theirs}.depthwise_convolution", f"{ours}.0")
        names |= named_unit(f"{theirs}.pointwise_convolution", f"{ours}.{2 if entry[4] else 1}")
        squeeze = f"{theirs}.squeeze_excitation_module.convolutions"
        names |= {f"{squeeze}.0.*": f"{ours}.1.reduce.*", f"{squeeze}.2.*": f"{ours}.1.expand.*"}
    return names


TEXTNET_KERNELS = [
    [[3, 3], [3, 3], [3, 3]],
    [[3, 3], [1, 3], [3, 3], [3, 1]],
    [[3, 3], [3, 3], [3, 1], [1, 3]],
    [[3, 3], [3, 1], [1, 3], [3, 3]],
]
TEXTNET_STRIDES = [[1, 2, 1], [2, 1, 1, 1], [2, 1, 1, 1], [2, 1, 1, 1]]
TextNetLayer = tuple[int, int, int, int, int, int, int]


def _textnet_layers(config: Config) -> list[TextNetLayer]:
    """(stage, number there, rows, columns, stride, width, out) of each layer."""
    kernels = config.value("conv_layer_kernel_sizes", default=None)
    strides = config.value("conv_layer_strides", default=None)
    all_kernels, all_strides = kernels.value or TEXTNET_KERNELS, strides.value or TEXTNET_STRIDES
    widths = size_list(config, "hidden_sizes")
    try:
        return [
            (
                stage,
                i,
                int(kernel[0]),
                int(kernel[1]),
                int(stride),
                widths[stage if not i else stage + 1],
                widths[stage + 1],
            )
            for stage in range(len(all_kernels))
            for i, (kernel, stride) in enumerate(zip(all_kernels[stage], all_strides[stage], strict=False))
        ]
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        what = "conv_layer_kernel_sizes, conv_layer_strides and hidden_sizes must fit together"
        raise config.error(what, at=kernels.place) from None


def _textnet(config: Config) -> Mapped:
    """TextNet: kernels of two shapes side by side."""
    config.only_architectures("TextNetModel", f"TextNet{CLASSIFIER}")
    config.ignore("depths")
    norm, layers = batchnorm(config.number("batch_norm_eps")), []
    for _, _, rows, columns, stride, width, out in _textnet_layers(config):
        shapes = [(rows, 1)] * (columns != 1) + [(1, columns)] * (rows != 1)
        branches = [_shaped(out, shape, stride, norm) for shape in shapes]
        if width == out and stride == 1:
            branches.append({"kind": "norm", "norm": norm})
        main = [_shaped(out, (rows, columns), stride, norm)]
        layers.append(steps_layer(main, branches=branches, activation="relu"))
    width = config.size("stem_out_channels").value
    first = convolution(
        width,
        config.size("stem_kernel_size").value,
        stride=config.size("stem_stride").value,
        norm=norm,
        activation=hf.activation(config, "stem_act_func"),
    )
    check_width(config, "hidden_sizes", size_list(config, "hidden_sizes")[0], width)
    front_end = stem(config, [first], channels=config.size("stem_num_channels"))
    return convolved(config, width, front_end, layers, norm=norm)


def _shaped(out: int, shape: tuple[int, int], stride: int, norm: Mapped) -> Mapped:
    """A convolution of rows x columns, both odd or its sides would not fit."""
    rows, columns = shape
    vertical, horizontal = (rows - 1) // 2, (columns - 1) // 2
    zeros = [horizontal, horizontal, vertical, vertical]
    around = {} if vertical == rows // 2 and horizontal == columns // 2 else {"around": zeros}
    return convolution(
        out, rows, columns=None if columns == rows else columns, stride=stride, **around, norm=norm
    )


def _textnet_names(config: Config) -> Weights:
    base = "[textnet.]"
    names: dict[str, Rule] = {
        **named_unit(f"{base}stem", "front_end.steps.0", {"conv": "conv", "batch_norm": "norm"}),
        "fc.*": "classifier.*",
    }
    for number, (stage, i, rows, columns, *_) in enumerate(_textnet_layers(config)):
        theirs, ours = f"{base}encoder.stages.{stage}.stage.{i}", f"layers.{number}"
        words = {"main": "steps.0"}
        branches = [name for name, side in (("vertical", columns), ("horizontal", rows)) if side != 1]
        words |= {name: f"branches.{n}" for n, name in enumerate(branches)}
        for name, place in words.items():
            names[f"{theirs}.{name}_conv.*"] = f"{ours}.{place}.conv.*"
            names[f"{theirs}.{name}_batch_norm.*"] = f"{ours}.{place}.norm.*"
        names[f"{theirs}.rbr_identity.*"] = f"{ours}.branches.{len(branches)}.norm.*"
    return names


FAMILIES = {
    "pp_lcnet": Family("PP-LCNet: PPLCNetConfig and its classifier.", _lcnet, _lcnet_names),
    "textnet": Family("TextNet: TextNetConfig and its classes.", _textnet, _textnet_names),
}
