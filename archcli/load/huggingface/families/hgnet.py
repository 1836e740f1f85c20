"""HGNetV2: layers whose convolutions in a row are all gathered by two more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Rule, Weights
from archcli.load.huggingface.whole.conv_like import (
    CLASSIFIER,
    batchnorm,
    check_width,
    convolution,
    convolved,
    named_unit,
    size_list,
    stem,
    steps_layer,
)

STEM = 5
"""Convolutions of the stem."""
LISTS = (
    "stage_in_channels",
    "stage_mid_channels",
    "stage_out_channels",
    "stage_num_blocks",
    "stage_downsample_strides",
    "stage_kernel_size",
    "stage_numb_of_layers",
)
BELOW = {"kind": "pad", "around": [0, 1, 0, 1]}
"""A row of zeros below, and a column to the right."""


class GatheredStage(NamedTuple):
    """A stage: channels before, within and behind its layers, how many, their kernels and convolutions."""

    before: int
    inner: int
    out: int
    depth: int
    stride: int
    kernel: int
    number: int
    coarser: bool
    light: bool


def _flags(config: Config, name: str, length: int) -> list[bool]:
    """A list with true or false for each stage."""
    entry = config.value(name)
    given = entry.value
    if not isinstance(given, list | tuple) or [type(flag) for flag in given] != [bool] * length:
        what = f"{name} must be a list of true or false for each stage, not {hf.short_repr(given)}"
        raise config.error(what, at=entry.place)
    return [*given]


def _stages(config: Config) -> list[GatheredStage]:
    number = len(size_list(config, LISTS[0]))
    lists = [size_list(config, name, number) for name in LISTS]
    flags = [_flags(config, name, number) for name in ("stage_downsample", "stage_light_block")]
    stages = [GatheredStage(*sizes) for sizes in zip(*lists, *flags, strict=True)]
    for stage in stages:
        if stage.kernel % 2 == 0:
            what = f"stage_kernel_size: a kernel of {stage.kernel} places is not supported"
            raise config.error(what, "an even one has no middle", config.place("stage_kernel_size"))
    return stages


def _conv(out: int, kernel: int = 1, *, act: Any = "relu", affine: bool = False, **more: Any) -> Mapped:
    """A convolution with a batch norm; a trained number and another follow an activation."""
    step = convolution(
        out, kernel, norm=batchnorm(), activation=act, affine=affine and act is not None, **more
    )
    return {**step, "padding": (kernel - 1) // 2}


def _block(stage: GatheredStage, *, first: bool, affine: bool) -> Mapped:
    """A layer: convolutions in a row, gathered; behind the first of a stage x is added."""
    inner: list[Mapped] = []
    for _ in range(stage.number):
        if stage.light:
            pair = [
                _conv(stage.inner, act=None),
                _conv(stage.inner, stage.kernel, affine=affine, depthwise=True),
            ]
            inner.append({"kind": "sequence", "steps": pair})
        else:
            inner.append(_conv(stage.inner, stage.kernel, affine=affine))
    gathered = [_conv(stage.out // 2, affine=affine), _conv(stage.out, affine=affine)]
    return steps_layer([{"kind": "dense", "steps": inner}, *gathered], residual=not first)


def _layers(stages: list[GatheredStage], *, affine: bool) -> Iterator[Mapped]:
    for stage in stages:
        if stage.coarser:
            yield steps_layer([_conv(stage.before, 3, act=None, stride=stage.stride, depthwise=True)])
        yield from (_block(stage, first=not i, affine=affine) for i in range(stage.depth))


def _stem(config: Config, *, affine: bool) -> Mapped:
    """Two convolutions beside a pooling, between three more."""
    channels, strides = size_list(config, "stem_channels", 3), size_list(config, "stem_strides", STEM)
    config.only("num_channels", channels[0])
    if channels[1] % 2:
        raise config.error("stem_channels: an odd width has no half", at=config.place("stem_channels"))
    more: dict[str, Any] = {"act": hf.activation(config, "hidden_act"), "affine": affine}
    middle = channels[1]
    aside = [
        _conv(middle // 2, 2, stride=strides[1], **more),
        BELOW,
        _conv(middle, 2, stride=strides[2], **more),
    ]
    if strides[1] * strides[2] > 1:
        what = "stem_strides: a stride of its second or third convolution is not supported"
        raise config.error(what, "state 1", config.place("stem_strides"))
    pool = {"kind": "pool", "kernel": 2, "stride": 1}
    steps = [
        _conv(middle, 3, stride=strides[0], **more),
        BELOW,
        {"kind": "join", "branches": [pool, {"kind": "sequence", "steps": aside}]},
        _conv(middle, 3, stride=strides[3], **more),
        _conv(channels[2], 1, stride=strides[4], **more),
    ]
    return stem(config, steps)


def _hgnet_v2(config: Config) -> Mapped:
    """HGNetV2's classifier."""
    config.only_architectures(f"HGNetV2{CLASSIFIER}")
    config.ignore("embedding_size", "depths")
    affine = config.flag("use_learnable_affine_block").value
    stages, before = _stages(config), size_list(config, "stem_channels", 3)[2]
    for stage in stages:
        check_width(config, "stage_in_channels", stage.before, before)
        before = stage.out
    check_width(config, "hidden_sizes", size_list(config, "hidden_sizes")[-1], before)
    return convolved(
        config,
        size_list(config, "stem_channels", 3)[2],
        _stem(config, affine=affine),
        [*_layers(stages, affine=affine)],
        norm=batchnorm(),
    )


def _unit(theirs: str, ours: str) -> dict[str, Rule]:
    """Names of a convolution's tensors."""
    affine: dict[str, Rule] = {
        f"{theirs}.lab.scale": f"{ours}.affine.scale",
        f"{theirs}.lab.bias": f"{ours}.affine_shift.weight",
    }
    return named_unit(theirs, ours) | affine


def _names(config: Config) -> Weights:
    """Names of the tensors."""
    base, front = "[hgnetv2.]", "front_end.steps"
    aside = f"{front}.2.branches.1.steps"
    places = {"stem1": f"{front}.0", "stem2a": f"{aside}.0", "stem2b": f"{aside}.2"}
    places |= {"stem3": f"{front}.3", "stem4": f"{front}.4"}
    names: dict[str, Rule] = {"fc.*": "classifier.*"}
    for theirs, ours in places.items():
        names |= _unit(f"{base}embedder.{theirs}", ours)
    number = 0
    for i, stage in enumerate(_stages(config)):
        within = f"{base}encoder.stages.{i}"
        if stage.coarser:
            names |= _unit(f"{within}.downsample", f"layers.{number}.steps.0")
            number += 1
        for j in range(stage.depth):
            names |= _block_names(stage, f"{within}.blocks.{j}", f"layers.{number}")
            number += 1
    return names


def _block_names(stage: GatheredStage, theirs: str, ours: str) -> dict[str, Rule]:
    """Names of a layer's tensors."""
    names: dict[str, Rule] = {}
    for k in range(stage.number):
        conv = f"{theirs}.layers.{k}"
        if stage.light:
            names |= _unit(f"{conv}.conv1", f"{ours}.steps.0.steps.{k}.steps.0")
            names |= _unit(f"{conv}.conv2", f"{ours}.steps.0.steps.{k}.steps.1")
        else:
            names |= _unit(conv, f"{ours}.steps.0.steps.{k}")
    names |= _unit(f"{theirs}.aggregation.0", f"{ours}.steps.1")
    return names | _unit(f"{theirs}.aggregation.1", f"{ours}.steps.2")


FAMILIES = {
    "hgnet_v2": Family("HGNetV2: HGNetV2Config and its classifier.", _hgnet_v2, _names),
}
