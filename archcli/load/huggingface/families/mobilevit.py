"""MobileViT 1 and 2: attention of like places of patches, between convolutions of MobileNetV2's kind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.conv_like import (
    CLASSIFIER,
    batchnorm,
    convolution,
    divisible,
    named_unit,
    size_list,
    stem,
    steps_layer,
)
from archcli.load.huggingface.whole.vit_like import UNREAD, labels, qkv_biases

HEADS = (
    "classifier_dropout_prob",
    "aspp_out_channels",
    "atrous_rates",
    "aspp_dropout_prob",
    "semantic_loss_ignore_index",
    "attn_dropout",
    "ffn_dropout",
)
"""Keys of decoders, and of what is dropped in training."""
USUAL_STRIDE = 32
DIVISOR, NETWORK = 8, 16
DEPTHS = (2, 4, 3)
"""Layers of MobileViT's stages; arXiv:2110.02178 table 4."""
WIDTHS_2 = (64, 128, 256, 384, 512)
LEAST, MOST = 16, 64
"""Bounds of the stem's width of MobileViTv2; the code of arXiv:2206.02680."""
BOTTLENECK = ("expand_1x1", "conv_3x3", "reduce_1x1")


class PatchStage(NamedTuple):
    """A stage with attention: channels around it, width within, layers."""

    out: int
    width: int
    depth: int


def _unit(config: Config) -> Mapped:
    return {"norm": batchnorm(), "activation": hf.activation(config, "hidden_act")}


def _bottleneck(config: Config, width: int, out: int, stride: int) -> Mapped:
    """MobileNetV2's layer: wide within, and x added where it keeps its shape."""
    inner = divisible(round(width * config.number("expand_ratio").value), DIVISOR)
    unit = _unit(config)
    steps = [
        convolution(inner, 1, **unit),
        convolution(stride=stride, depthwise=True, **unit),
        convolution(out, 1, norm=batchnorm()),
    ]
    return steps_layer(steps, residual=stride == 1 and width == out)


def _kernel(config: Config) -> int:
    side = config.size("conv_kernel_size")
    if side.value % 2 == 0:
        what = f"conv_kernel_size {side} is not supported"
        raise config.error(what, "an even one has no middle", side.place)
    return side.value


def _whole(config: Config, widths: list[int], depths: tuple[int, int], parts: list[Mapped]) -> Mapped:
    """Stem, two stages of convolutions, stages with attention, and the mean of all places."""
    config.ignore(*UNREAD, *HEADS)
    config.only("output_stride", USUAL_STRIDE)
    groups: list[Mapped] = []
    for i, (width, out) in enumerate(pairwise(widths)):
        layers = [_bottleneck(config, width, out, 1 + i)]
        layers += [_bottleneck(config, out, out, 1)] * (depths[i] - 1)
        groups += ({"n_layers": 1, "layer": layer} for layer in layers)
    return {
        "kind": "media_encoder",
        "d_model": widths[0],
        "norm": batchnorm(),
        "front_end": stem(config, [convolution(widths[0], stride=2, **_unit(config))]),
        "final_norm": False,
        "pooling": {"kind": "mean"},
        **(labels(config) if config.architecture.endswith(CLASSIFIER) else {}),
        "groups": [*groups, *parts],
    }


def _v1_stages(config: Config) -> tuple[list[int], list[PatchStage]]:
    """All widths, and the stages with attention."""
    widths = size_list(config, "neck_hidden_sizes", 7)
    inner = size_list(config, "hidden_sizes", len(DEPTHS))
    return widths, [PatchStage(*sizes) for sizes in zip(widths[3:6], inner, DEPTHS, strict=True)]


def _v1(config: Config) -> Mapped:
    """MobileViT: what layers of attention make stands beside what they read."""
    config.only_architectures("MobileViTModel", f"MobileViT{CLASSIFIER}")
    widths, stages = _v1_stages(config)
    norm, kernel, unit = hf.layernorm(config.number("layer_norm_eps")), _kernel(config), _unit(config)
    parts, before = [], widths[2]
    for out, width, depth in stages:
        parts.append({"n_layers": 1, "layer": _bottleneck(config, before, out, 2)})
        fused = {
            "kind": "fused",
            "before": [convolution(out, kernel, **unit), convolution(width, 1)],
            "repeats": depth,
            "layer": {"kind": "pre_norm", "norm": norm, **_v1_layer(config, width)},
            "behind": [{"kind": "norm", "norm": norm}, convolution(out, 1, **unit)],
            "fusion": [convolution(out, kernel, **unit)],
        }
        parts.append({"n_layers": 1, "layer": fused})
        before = out
    parts.append({"n_layers": 1, "layer": steps_layer([convolution(widths[-1], 1, **unit)])})
    return _whole(config, widths[:3], (1, 3), parts)


def _v1_layer(config: Config, width: int) -> Mapped:
    """Attention and network of a layer."""
    heads = config.size("num_attention_heads")
    if width % heads.value:
        what = f"num_attention_heads {heads} does not divide the width {width} of a stage"
        raise config.error(what, at=heads.place)
    attention = {
        "kind": "grid_pixels",
        "side": config.size("patch_size"),
        "n_heads": heads,
        "head_dim": width // heads.value,
        "bias": qkv_biases(config),
        "causal": False,
    }
    return {"attention": attention, "ffn": _network(config, int(width * config.number("mlp_ratio").value))}


def _network(config: Config, width: int) -> Mapped:
    if width < 1:
        raise config.error("a network has no width", "state a larger ratio")
    return {"kind": "mlp", "d_ff": width, "activation": hf.activation(config, "hidden_act"), "bias": True}


def _v2_widths(config: Config) -> list[int]:
    """Channels of the stem and of all stages."""
    factor = config.number("width_multiplier").value
    first = divisible(max(LEAST, min(MOST, 32 * factor)), DIVISOR, LEAST)
    return [first, *(divisible(n * factor, 16 if n == WIDTHS_2[0] else DIVISOR) for n in WIDTHS_2)]


def _v2_stages(config: Config) -> list[PatchStage]:
    factor = config.number("width_multiplier").value
    inner = [divisible(n * factor, DIVISOR) for n in size_list(config, "base_attn_unit_dims", len(DEPTHS))]
    depths = size_list(config, "n_attn_blocks", len(DEPTHS))
    return [PatchStage(*sizes) for sizes in zip(_v2_widths(config)[3:], inner, depths, strict=True)]


def _v2(config: Config) -> Mapped:
    """MobileViTv2: separable attention, group norms, and nothing beside them."""
    config.only_architectures("MobileViTV2Model", f"MobileViTV2{CLASSIFIER}")
    norm = {"kind": "groupnorm", "eps": config.number("layer_norm_eps")}
    kernel, unit, widths = _kernel(config), _unit(config), _v2_widths(config)
    ratio, side = config.number("ffn_multiplier").value, config.size("patch_size")
    parts, before = [], widths[2]
    for out, width, depth in _v2_stages(config):
        ffn = _network(config, int(ratio * width // NETWORK * NETWORK))
        mixer = {"kind": "separable", "side": side}
        layer = {"kind": "pre_norm", "norm": norm, "mixer": mixer, "ffn": ffn}
        local = [convolution(kernel=kernel, depthwise=True, **unit), convolution(width, 1)]
        last = [{"kind": "norm", "norm": norm}, convolution(out, 1, norm=batchnorm())]
        parts += [
            {"n_layers": 1, "layer": _bottleneck(config, before, out, 2)},
            {"n_layers": 1, "layer": steps_layer(local)},
            {"n_layers": depth, "layer": layer},
            {"n_layers": 1, "layer": steps_layer(last)},
        ]
        before = out
    return _whole(config, widths[:3], (1, 2), parts)


def _bottleneck_names(theirs: str, ours: str) -> Iterator[tuple[str, Rule]]:
    for i, part in enumerate(BOTTLENECK):
        yield from named_unit(f"{theirs}.{part}", f"{ours}.steps.{i}").items()


def _first_names(base: str, depths: tuple[int, int]) -> dict[str, Rule]:
    """Names of the stem and of the stages of convolutions."""
    names = named_unit(f"{base}conv_stem", "front_end.steps.0") | {"classifier.*": "classifier.*"}
    number = 0
    for i, depth in enumerate(depths):
        for j in range(depth):
            names |= dict(_bottleneck_names(f"{base}encoder.layer.{i}.layer.{j}", f"layers.{number}"))
            number += 1
    return names


V1_LAYER = {
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "ffn.up_proj",
    "output.dense": "ffn.down_proj",
    "layernorm_before": "attention_norm",
    "layernorm_after": "ffn_norm",
}


def _v1_names(_: Config) -> Weights:
    """Names of MobileViT's tensors."""
    base, number = "[mobilevit.]", 4
    names = _first_names(base, (1, 3))
    for i, depth in enumerate(DEPTHS, 2):
        theirs, ours = f"{base}encoder.layer.{i}", f"layers.{number + 1}"
        names |= dict(_bottleneck_names(f"{theirs}.downsampling_layer", f"layers.{number}"))
        units = {"conv_kxk": "before.0", "conv_1x1": "before.1"}
        units |= {"conv_projection": "behind.1", "fusion": "fusion.0"}
        for unit, place in units.items():
            names |= named_unit(f"{theirs}.{unit}", f"{ours}.{place}")
        names[f"{theirs}.layernorm.*"] = f"{ours}.behind.0.norm.*"
        for j in range(depth):
            layer = f"{theirs}.transformer.layer.{j}"
            names |= {f"{layer}.{name}.*": f"{ours}.layers.{j}.{part}.*" for name, part in V1_LAYER.items()}
        number += 2
    return names | named_unit(f"{base}conv_1x1_exp", f"layers.{number}.steps.0")


def _v2_names(config: Config) -> Weights:
    """Names of MobileViTv2's tensors: its matrices are stored as kernels of one place."""
    base, number = "[mobilevitv2.]", 3
    names = _first_names(base, (1, 2))
    for i, stage in enumerate(_v2_stages(config), 2):
        theirs, last = f"{base}encoder.layer.{i}", number + 2 + stage.depth
        names |= dict(_bottleneck_names(f"{theirs}.downsampling_layer", f"layers.{number}"))
        names |= named_unit(f"{theirs}.conv_kxk", f"layers.{number + 1}.steps.0")
        names |= named_unit(f"{theirs}.conv_1x1", f"layers.{number + 1}.steps.1")
        for j in range(stage.depth):
            names |= _separable_names(f"{theirs}.transformer.layer.{j}", f"layers.{number + 2 + j}")
        names[f"{theirs}.layernorm.*"] = f"layers.{last}.steps.0.norm.*"
        names |= named_unit(f"{theirs}.conv_projection", f"layers.{last}.steps.1")
        number = last + 1
    return names


def _separable_names(theirs: str, ours: str) -> dict[str, Any]:
    """Names of a layer's tensors."""
    names: dict[str, Rule] = {
        f"{theirs}.layernorm_before.*": f"{ours}.mixer_norm.*",
        f"{theirs}.layernorm_after.*": f"{ours}.ffn_norm.*",
    }
    matrices = {"attention.qkv_proj": "mixer.qkv_proj", "attention.out_proj": "mixer.o_proj"}
    matrices |= {"ffn.conv1": "ffn.up_proj", "ffn.conv2": "ffn.down_proj"}
    for name, part in matrices.items():
        names[f"{theirs}.{name}.convolution.weight"] = Parts((f"{ours}.{part}.weight",), tapped=2)
        names[f"{theirs}.{name}.convolution.bias"] = f"{ours}.{part}.bias"
    return names


FAMILIES = {
    "mobilevit": Family("MobileViT: MobileViTConfig, MobileViTModel and its classifier.", _v1, _v1_names),
    "mobilevitv2": Family(
        "MobileViTv2: MobileViTV2Config, MobileViTV2Model and its classifier.", _v2, _v2_names
    ),
}
