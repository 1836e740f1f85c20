"""ResNet, RegNet and BiT: layers of convolutions beside a shortcut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Rule, Weights
from archcli.load.huggingface.whole.conv_like import (
    CLASSIFIER,
    batchnorm,
    convolution,
    convolved,
    divisible,
    named_unit,
    size_list,
    stem,
    steps_layer,
)

REDUCTION = 4
"""By how much a bottleneck is narrower than what it reads; arXiv:1512.03385 section 4.1."""


EIGHTS = 8
"""BiT's widths are multiples of it."""


class StageLayer(NamedTuple):
    """A layer: its stage and its number there, its widths, and by how much it makes the grid coarser."""

    stage: int
    number: int
    width: int
    out: int
    stride: int

    @property
    def has_shortcut(self) -> bool:
        """Whether a convolution stands in the place of x itself."""
        return self.width != self.out or self.stride != 1


def _places(config: Config) -> Iterator[StageLayer]:
    """The layers of all stages."""
    widths = size_list(config, "hidden_sizes")
    depths = size_list(config, "depths", len(widths))
    before = [config.size("embedding_size").value, *widths]
    first = 2 if config.flag("downsample_in_first_stage").value else 1
    for stage, ((width, out), depth) in enumerate(zip(pairwise(before), depths, strict=True)):
        yield StageLayer(stage, 0, width, out, 2 if stage else first)
        yield from (StageLayer(stage, i, out, out, 1) for i in range(1, depth))


def _layer(place: StageLayer, steps: list[Mapped], function: Any) -> Mapped:
    """A layer of these steps, with x or a convolution of it beside them."""
    shortcut = convolution(place.out, 1, stride=place.stride, norm=batchnorm())
    beside = {"branches": [shortcut]} if place.has_shortcut else {"residual": True}
    return steps_layer(steps, **beside, activation=function)


def _resnet_steps(config: Config, place: StageLayer) -> list[Mapped]:
    """Two convolutions, or three of which the outer ones read a place each."""
    norm = batchnorm()
    kind = config.get("layer_type")
    config.only("layer_type", "basic", "bottleneck")
    # the class hands its activation on to the sum alone: within a layer it is ReLU
    if kind == "basic":
        return [
            convolution(place.out, stride=place.stride, norm=norm, activation="relu"),
            convolution(place.out, norm=norm),
        ]
    inner = max(place.out // REDUCTION, 1)
    early = config.flag("downsample_in_bottleneck").value
    strides = (place.stride, 1) if early else (1, place.stride)
    return [
        convolution(inner, 1, stride=strides[0], norm=norm, activation="relu"),
        convolution(inner, stride=strides[1], norm=norm, activation="relu"),
        convolution(place.out, 1, norm=norm),
    ]


def _regnet_steps(config: Config, place: StageLayer) -> list[Mapped]:
    """Three convolutions, the middle one in groups, with squeeze-and-excitation behind it in layers y."""
    norm, function = batchnorm(), hf.activation(config, "hidden_act")
    config.only("layer_type", "x", "y")
    groups = max(1, place.out // config.size("groups_width").value)
    steps = [
        convolution(place.out, 1, norm=norm, activation=function),
        convolution(place.out, stride=place.stride, groups=groups, norm=norm, activation=function),
        convolution(place.out, 1, norm=norm),
    ]
    if config.get("layer_type") == "y":
        steps.insert(2, {"kind": "squeeze", "width": round(place.width / REDUCTION)})
    return steps


def _network(
    config: Config, prefix: str, first: list[Mapped], steps: Callable[[Config, StageLayer], list[Mapped]]
) -> Mapped:
    """A network with this stem and these steps in its layers."""
    config.only_architectures(f"{prefix}Model", f"{prefix}{CLASSIFIER}")
    function = hf.activation(config, "hidden_act")
    layers = [_layer(place, steps(config, place), function) for place in _places(config)]
    width = config.size("embedding_size").value
    return convolved(config, width, stem(config, first), layers, norm=batchnorm())


def _resnet(config: Config) -> Mapped:
    """ResNet: the stem halves the grid twice."""
    width, function = config.size("embedding_size").value, hf.activation(config, "hidden_act")
    first = [
        convolution(width, 7, stride=2, norm=batchnorm(), activation=function),
        {"kind": "pool", "reduction": "max", "kernel": 3, "stride": 2, "padding": 1},
    ]
    return _network(config, "ResNet", first, _resnet_steps)


def _regnet(config: Config) -> Mapped:
    """RegNet: groups of equal width in each layer."""
    width, function = config.size("embedding_size").value, hf.activation(config, "hidden_act")
    first = [convolution(width, stride=2, norm=batchnorm(), activation=function)]
    return _network(config, "RegNet", first, _regnet_steps)


def _names(config: Config, base: str, *, stem_name: str, n_steps: int) -> Weights:
    """Names of the tensors: layers of ours are numbered through all stages."""
    names: dict[str, Rule] = {
        **named_unit(f"[{base}.]embedder{stem_name}", "front_end.steps.0"),
        "classifier.1.*": "classifier.*",
    }
    for number, place in enumerate(_places(config)):
        theirs, ours = f"[{base}.]encoder.stages.{place.stage}.layers.{place.number}", f"layers.{number}"
        for i in range(n_steps):
            names |= named_unit(f"{theirs}.layer.{i}", f"{ours}.steps.{i}")
            names |= {
                f"{theirs}.layer.{i}.attention.0.*": f"{ours}.steps.{i}.reduce.*",
                f"{theirs}.layer.{i}.attention.2.*": f"{ours}.steps.{i}.expand.*",
            }
        if place.has_shortcut:
            names |= named_unit(f"{theirs}.shortcut", f"{ours}.branches.0")
    return names


def _resnet_names(config: Config) -> Weights:
    return _names(config, "resnet", stem_name=".embedder", n_steps=3)


def _regnet_names(config: Config) -> Weights:
    return _names(config, "regnet", stem_name=".embedder", n_steps=4)


BIT_STRIDE = 4
"""By how much BiT's stem makes the grid coarser."""
BIT_EPS = 1e-8


def _bit_places(config: Config) -> Iterator[StageLayer]:
    """The layers of BiT's stages; the first of each has a shortcut."""
    factor = config.size("width_factor").value
    widths = [divisible(factor * width, EIGHTS) for width in size_list(config, "hidden_sizes")]
    before, stride = config.size("embedding_size").value, BIT_STRIDE
    for stage, (width, depth) in enumerate(
        zip(widths, size_list(config, "depths", len(widths)), strict=True)
    ):
        step = 2 if stage else 1
        if stage and stride >= config.size("output_stride").value:
            what = (
                f"output_stride {config.size('output_stride')} below that of the last stage is not supported"
            )
            raise config.error(what, "its kernels are dilated", config.place("output_stride"))
        stride *= step
        yield StageLayer(stage, 0, before, width, step)
        yield from (StageLayer(stage, i, width, width, 1) for i in range(1, depth))
        before = width


def _bit_conv(out: int, kernel: int, stride: int = 1, **more: Any) -> Mapped:
    """A convolution with standardized kernels."""
    return convolution(out, kernel, stride=stride, standardized=BIT_EPS, **more)


def _bit(config: Config) -> Mapped:
    """BiT: norms in front of convolutions, whose kernels are standardized."""
    config.only_architectures("BitModel", f"Bit{CLASSIFIER}")
    config.only("layer_type", "preactivation")
    config.only("embedding_dynamic_padding", False)
    if config.get("global_padding", default=None) is not None:
        raise config.error("global_padding is not supported", at=config.place("global_padding"))
    function = hf.activation(config, "hidden_act")
    norm = {"kind": "groupnorm", "eps": 1e-5, "groups": config.size("num_groups")}
    unit: Mapped = {"norm": norm, "activation": function}
    layers = []
    for place in _bit_places(config):
        inner = divisible(place.out / REDUCTION, EIGHTS)
        steps = [
            _bit_conv(inner, 1, **unit),
            _bit_conv(inner, 3, place.stride, **unit),
            _bit_conv(place.out, 1),
        ]
        shortcut = [_bit_conv(place.out, 1, place.stride)]
        beside = {"residual": True} if place.number else {"branches": shortcut}
        layers.append(steps_layer(steps, before=[{"kind": "norm", **unit}], **beside))
    layers.append(steps_layer([{"kind": "norm", **unit}]))
    width = config.size("embedding_size").value
    first = [
        _bit_conv(width, 7, 2),
        {"kind": "pad", "size": 1},
        {"kind": "pool", "reduction": "max", "kernel": 3, "stride": 2},
    ]
    return convolved(config, width, stem(config, first), layers, norm=norm)


def _bit_names(config: Config) -> Weights:
    """Names of BiT's tensors: a norm of theirs stands in front of a convolution, ours behind it."""
    base, places = "[bit.]", [*_bit_places(config)]
    names: dict[str, Rule] = {
        f"{base}embedder.convolution.*": "front_end.steps.0.conv.*",
        f"{base}norm.*": f"layers.{len(places)}.steps.0.norm.*",
        "classifier.1.*": "classifier.*",
    }
    for number, place in enumerate(places):
        theirs, ours = f"{base}encoder.stages.{place.stage}.layers.{place.number}", f"layers.{number}"
        names |= {
            f"{theirs}.norm1.*": f"{ours}.before.0.norm.*",
            f"{theirs}.norm2.*": f"{ours}.steps.0.norm.*",
            f"{theirs}.norm3.*": f"{ours}.steps.1.norm.*",
            f"{theirs}.downsample.conv.*": f"{ours}.branches.0.conv.*",
            **{f"{theirs}.conv{i + 1}.*": f"{ours}.steps.{i}.conv.*" for i in range(3)},
        }
    return names


FAMILIES = {
    "bit": Family("BiT: BitConfig, BitModel and its classifier.", _bit, _bit_names),
    "resnet": Family("ResNet: ResNetConfig, ResNetModel and its classifier.", _resnet, _resnet_names),
    "regnet": Family("RegNet: RegNetConfig, RegNetModel and its classifier.", _regnet, _regnet_names),
}
