"""SwiftFormer: convolutions on a grid, and additive attention at the end of each stage."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.conv_like import (
    CLASSIFIER,
    batchnorm,
    convolution,
    size_list,
    stem,
    steps_layer,
)
from archcli.load.huggingface.whole.vit_like import UNREAD, labels

SIDE = 3
"""Places on each side of all kernels within stages."""
Place = tuple[str, int, int]
"""A layer: its sort (conv, mix or down), its stage, and its number there."""


def _places(config: Config) -> Iterator[Place]:
    """All layers; that of a stage's end are two of ours: convolutions, then attention and a network."""
    depths = size_list(config, "depths")
    widths = size_list(config, "embed_dims", len(depths))
    stated = config.value("downsamples").value
    if not isinstance(stated, list | tuple) or len(stated) < len(depths) - 1:
        what = f"downsamples must be a list of true or false, not {hf.short_repr(stated)}"
        raise config.error(what, at=config.place("downsamples"))
    for stage, depth in enumerate(depths):
        yield from (("conv", stage, i) for i in range(depth - 1))
        yield "local", stage, depth - 1
        yield "mix", stage, depth - 1
        last = stage + 1 == len(depths)
        if not last and (stated[stage] or widths[stage] != widths[stage + 1]):
            yield "down", stage, 0


def _network(config: Config, width: ConfigValue[int], ratio: float, act: str | None) -> Mapped:
    """A network so many times as wide as its stage; without a key of its activation it has GELU."""
    d_ff = int(ratio * width.value)
    if d_ff < 1:
        raise config.error("mlp_ratio leaves no width", at=config.place("mlp_ratio"))
    if act is None:
        return {"kind": "mlp", "d_ff": d_ff, "activation": "gelu", "bias": True}
    return hf.mlp(config, width.derive(d_ff), act)


def _layer(config: Config, place: Place, norm: Mapped) -> Mapped:
    sort, stage, _ = place
    widths, ratio = size_list(config, "embed_dims"), config.number("mlp_ratio").value
    width = config.value("embed_dims").derive(widths[stage])
    if sort == "down":
        step = convolution(
            widths[stage + 1],
            config.size("down_patch_size").value,
            stride=config.size("down_stride").value,
            bias=True,
            norm=norm,
        )
        return steps_layer([{**step, "padding": config.count("down_pad").value}])
    if sort in ("conv", "local"):
        network = _network(config, width, ratio if sort == "conv" else 1, None)
        return {"kind": "convolved", "kernel": SIDE, "layer_scale": 1.0, "ffn": network}
    scale = config.number("layer_scale_init_value")
    scaled = config.flag("use_layer_scale").value
    if scaled and scale.value <= 0:
        what = f"layer_scale_init_value {scale} is not supported"
        raise config.error(what, "state one above 0", scale.place)
    return {
        "kind": "pre_norm",
        "normed": "ffn",
        "mixer": {"kind": "additive"},
        "ffn": _network(config, width, ratio, "hidden_act"),
        **({"layer_scale": scale} if scaled else {}),
    }


def _swiftformer(config: Config) -> Mapped:
    """SwiftFormer: the base model, and its two classifiers of the mean."""
    config.only_architectures("SwiftFormerModel", f"SwiftFormer{CLASSIFIER}")
    config.ignore(*UNREAD, "drop_mlp_rate", "drop_conv_encoder_rate")
    norm = batchnorm(config.number("batch_norm_eps"))
    width = size_list(config, "embed_dims")[0]
    if width < 2:  # noqa: PLR2004 half of it
        raise config.error("embed_dims: a width of 1 has no half", at=config.place("embed_dims"))
    steps = [
        convolution(out, SIDE, stride=2, bias=True, norm=norm, activation="relu")
        for out in (width // 2, width)
    ]
    named = labels(config) if config.architecture.endswith(CLASSIFIER) else {}
    ends: Mapped = {"pooling": {"kind": "mean"}, **named, "second_classifier": True} if named else {}
    return {
        "kind": "media_encoder",
        "d_model": width,
        "norm": norm,
        "front_end": stem(config, steps),
        "final_norm": config.architecture.endswith(CLASSIFIER),
        **ends,
        "groups": [{"n_layers": 1, "layer": _layer(config, place, norm)} for place in _places(config)],
    }


CONV = {"point_wise_conv1": "ffn.up_proj", "point_wise_conv2": "ffn.down_proj"}
ADDITIVE = {"to_query": "q_proj", "to_key": "k_proj", "proj": "mix_proj", "final": "o_proj"}


def _convolved(theirs: str, ours: str) -> dict[str, Rule]:
    """Names of a layer of convolutions: its matrices are stored as kernels of one place."""
    names: dict[str, Rule] = {
        f"{theirs}.depth_wise_conv.*": f"{ours}.conv.*",
        f"{theirs}.norm.*": f"{ours}.ffn_norm.*",
        f"{theirs}.layer_scale": Parts((f"{ours}.ffn_layer_scale.scale",), tapped=2),
    }
    return names | _kernels(theirs, ours, CONV)


def _kernels(theirs: str, ours: str, words: dict[str, str]) -> dict[str, Rule]:
    names: dict[str, Rule] = {}
    for name, part in words.items():
        names[f"{theirs}.{name}.weight"] = Parts((f"{ours}.{part}.weight",), tapped=2)
        names[f"{theirs}.{name}.bias"] = f"{ours}.{part}.bias"
    return names


def _mixing(theirs: str, ours: str) -> dict[str, Rule]:
    """Names of attention and of the network behind it."""
    names: dict[str, Rule] = {f"{theirs}.linear.norm1.*": f"{ours}.ffn_norm.*"}
    names |= {f"{theirs}.attn.{name}.*": f"{ours}.mixer.{part}.*" for name, part in ADDITIVE.items()}
    names[f"{theirs}.attn.w_g"] = Parts((f"{ours}.mixer.weigh.weight",), transposed=True)
    for i, part in ((1, "mixer"), (2, "ffn")):
        names[f"{theirs}.layer_scale_{i}"] = Parts((f"{ours}.{part}_layer_scale.scale",), tapped=2)
    return names | _kernels(theirs, f"{ours}.ffn", {"linear.fc1": "up_proj", "linear.fc2": "down_proj"})


def _names(config: Config) -> Weights:
    """Names of the tensors."""
    base = "[swiftformer.]"
    names: dict[str, Rule] = {"norm.*": "final_norm.*", "head.*": "classifier.*"}
    names["dist_head.*"] = "teacher_classifier.*"
    for i in range(2):
        names[f"{base}patch_embed.patch_embedding.{3 * i}.*"] = f"front_end.steps.{i}.conv.*"
        names[f"{base}patch_embed.patch_embedding.{3 * i + 1}.*"] = f"front_end.steps.{i}.norm.*"
    part = 0
    for number, (sort, stage, i) in enumerate(_places(config)):
        ours, theirs = f"layers.{number}", f"{base}encoder.network.{part}.blocks.{i}"
        if sort == "down":
            names[f"{base}encoder.network.{part + 1}.proj.*"] = f"{ours}.steps.0.conv.*"
            names[f"{base}encoder.network.{part + 1}.norm.*"] = f"{ours}.steps.0.norm.*"
            part += 1
        elif sort == "conv":
            names |= _convolved(theirs, ours)
        elif sort == "local":
            names |= _convolved(f"{theirs}.local_representation", ours)
        else:
            names |= _mixing(theirs, ours)
        if (sort == "mix" and not _follows(config, stage)) or sort == "down":
            part += 1
    return names


def _follows(config: Config, stage: int) -> bool:
    """Whether a layer that makes the grid coarser follows a stage."""
    return ("down", stage, 0) in [*_places(config)]


FAMILIES = {
    "swiftformer": Family(
        "SwiftFormer: SwiftFormerConfig, SwiftFormerModel and its classifier.", _swiftformer, _names
    ),
}
