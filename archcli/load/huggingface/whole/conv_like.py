"""Convolutional networks on images: a stem of steps, layers of steps, a mean of all places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from archcli.load.huggingface.config import MOST_LAYERS, Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.decoder import groups
from archcli.load.huggingface.weights.map import Rule
from archcli.load.huggingface.whole.vit_like import UNREAD, labels, sides

USUAL_SIDE = 224
"""Height and width of an image, in pixels, where a class states none: ImageNet's."""
BATCH_EPS = 1e-5
"""nn.BatchNorm2d's own eps."""
LEAST_SHARE = 0.9
"""Rounding takes no more than a tenth of the channels away; the code of MobileNetV2, arXiv:1801.04381."""
CLASSIFIER = "ForImageClassification"

Layers = Iterable[Mapped]


def batchnorm(eps: Any = BATCH_EPS, **more: Any) -> Mapped:
    """A batch norm."""
    return {"kind": "batchnorm", "eps": eps, **more}


def convolution(out: int | None = None, kernel: int = 3, **more: Any) -> Mapped:
    """A step of kind conv; what is None or false is left out."""
    step = {"kind": "conv", "out": out, "kernel": kernel, **more}
    return {key: value for key, value in step.items() if value is not None and value is not False}


def steps_layer(steps: Sequence[Mapped], **more: Any) -> Mapped:
    """A layer of kind convolutions."""
    layer = {"kind": "convolutions", "steps": [*steps], **more}
    return {key: value for key, value in layer.items() if value not in (None, False, [])}


def divisible(value: float, divisor: int, least: int | None = None) -> int:
    """The nearest multiple of a divisor that is not much smaller."""
    nearest = max(divisor if least is None else least, int(value + divisor / 2) // divisor * divisor)
    return int(nearest + divisor if nearest < LEAST_SHARE * value else nearest)


def check_width(config: Config, name: str, width: int, before: int) -> None:
    """Refuse a layer whose stated input is not as wide as what stands before it: its class cannot run."""
    if width != before:
        what = f"{name}: a layer that reads {width} channels stands behind {before}"
        raise config.error(what, at=config.place(name))


def size_list(config: Config, name: str, length: int | None = None) -> list[int]:
    """A list of sizes, with an entry for each stage."""
    entry = config.value(name)
    if (
        not isinstance(entry.value, list | tuple)
        or not entry.value
        or len(entry.value) != (length or len(entry.value))
    ):
        what = f"{name} must be a list with an entry for each stage, not {short_repr(entry.value)}"
        raise config.error(what, at=entry.place)
    config.sizes.add(name)
    sizes = [config.as_size(name, entry.derive(size)).value for size in entry.value]
    if max(sizes) > MOST_LAYERS:
        raise config.error(f"{name}: {max(sizes)} is more than {MOST_LAYERS}", at=entry.place)
    return sizes


def usual_sides(config: Config) -> Any:
    """Height and width of the usual image."""
    if config.get("image_size", default=None) is None:
        return [USUAL_SIDE, USUAL_SIDE]
    return sides(config, "image_size")


def stem(config: Config, steps: Sequence[Mapped], *, channels: Any = None) -> Mapped:
    """A front end of steps."""
    return {
        "kind": "convolved_image",
        "image_size": usual_sides(config),
        "in_channels": channels or config.size("num_channels"),
        "steps": [*steps],
    }


def convolved(
    config: Config, width: int, front_end: Mapped, layers: Layers, *, norm: Mapped, **more: Any
) -> Mapped:
    """A network of layers on a grid, without a final norm; a mean of all places is what is classified."""
    config.ignore(*UNREAD)
    is_classifier = config.architecture.endswith(CLASSIFIER)
    whole: Mapped = {
        "kind": "media_encoder",
        "d_model": width,
        "norm": norm,
        "front_end": front_end,
        "final_norm": False,
        "pooling": {"kind": "mean"},
        **(labels(config) if is_classifier else {}),
        **more,
        "groups": _groups(layers),
    }
    return {key: value for key, value in whole.items() if value is not None}


def _groups(layers: Layers) -> list[Mapped]:
    """The layers as groups; only those that add to x, and so keep its shape, may repeat."""
    parts: list[Mapped] = []
    for keeps, run in groupby(layers, lambda layer: bool(layer.get("residual"))):
        if keeps:
            parts += groups([*run])
        else:
            parts += ({"n_layers": 1, "layer": layer} for layer in run)
    return parts


def named_unit(theirs: str, ours: str, renames: Mapping[str, str] | None = None) -> dict[str, Rule]:
    """Names of a step's tensors: `renames` has theirs for conv and norm."""
    renames = renames or {"convolution": "conv", "normalization": "norm"}
    return {f"{theirs}.{word}.*": f"{ours}.{part}.*" for word, part in renames.items()}


class PyramidStage(NamedTuple):
    """A stage: its layers, their width, and the convolution in front of them."""

    depth: int
    width: int
    patch: int
    stride: int


def pyramid_stages(config: Config) -> list[PyramidStage]:
    """The stages, of which a file states every property in a list."""
    number = config.size("num_encoder_blocks").value
    names = ("depths", "hidden_sizes", "patch_sizes", "strides")
    return [
        PyramidStage(*sizes)
        for sizes in zip(*(size_list(config, name, number) for name in names), strict=True)
    ]


def pyramid_ratios(config: Config, stages: int) -> list[float]:
    """By how much the network of each stage is wider than the stage."""
    entry = config.value("mlp_ratios")
    if not isinstance(entry.value, list | tuple) or len(entry.value) != stages:
        what = f"mlp_ratios must be a list with an entry for each stage, not {short_repr(entry.value)}"
        raise config.error(what, at=entry.place)
    return [float(ratio) for ratio in entry.value]
