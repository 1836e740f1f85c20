"""Inputs that the forward of a class of transformers takes, made from the sizes in its config.

with_inputs(model, "meta", run)    # run({"input_ids": int64[1,2048]}), or the first set of inputs that runs
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import Any, TypeVar

import torch
from torch import nn

from archcli.errors import ArchError
from archcli.runtime.classes.model import seeded
from archcli.runtime.own.failures import RunError

Inputs = dict[str, torch.Tensor]
Answer = TypeVar("Answer")
TOKENS, TOKENS_WITH_VALUES, PIXELS, FRAMES, SAMPLES, STEPS = 2048, 128, 224, 3000, 16_000, 64
"""Sizes where a config has none: of a text, an image, a spectrogram, a second of sound, a series."""
MOST_TRIES, MOST_SHAPES, MOST_ELEMENTS = 40, 8, 2**40

OF_TEXT = ("input_ids", "decoder_input_ids")
OF_MEDIA = ("pixel_values", "input_features", "input_values", "pixel_values_videos")
"""Inputs that are tried where those that forward requires are not enough."""


class ConfigSizes:
    """The sizes of a model's config, its own before those of its parts."""

    def __init__(self, model: nn.Module, device: str) -> None:
        self.configs, self.model = [*_parts(model.config)], model
        self.most_tokens = TOKENS if device == "meta" else TOKENS_WITH_VALUES

    def value(self, *names: str) -> Any:
        """The first value at one of these keys; None where none has one."""
        for config in self.configs:
            for name in names:
                value = getattr(config, name, None)
                if value is not None and value is not False:
                    return value
        return None

    def size(self, *names: str, usual: int) -> int:
        """The first whole number at one of these keys."""
        for config in self.configs:
            for name in names:
                value = getattr(config, name, None)
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
        return usual

    @property
    def tokens(self) -> int:
        """The tokens of a text, a power of two: RoBERTa's 514 positions hold 512 of them."""
        names = ("max_position_embeddings", "n_positions", "max_target_positions", "n_ctx", "max_seq_len")
        most = min(self.most_tokens, self.size(*names, usual=TOKENS))
        return 1 << (most.bit_length() - 1)

    @property
    def channels(self) -> int:
        """The channels of an image."""
        return self.size("num_channels", "in_channels", "in_chans", usual=3)

    @property
    def image(self) -> tuple[int, int]:
        """Height and width of an image."""
        value = self.value("image_size", "img_size", "input_size", "max_img_size")
        if isinstance(value, Mapping):
            value = [value.get("height"), value.get("width")]
        if isinstance(value, Sequence) and len(value) == 1:
            value = [*value, *value]
        if isinstance(value, Sequence) and len(value) > 1 and all(isinstance(it, int) for it in value[-2:]):
            return value[-2], value[-1]
        if isinstance(value, int) and value > 0:
            return value, value
        side = PIXELS // self.patch * self.patch
        return side, side

    @property
    def patch(self) -> int:
        """The side of a patch."""
        value = self.value("patch_size")
        if isinstance(value, Sequence) and value:
            value = value[-1]
        return value if isinstance(value, int) and value > 0 else 1

    @property
    def patch_values(self) -> int:
        """The values of a patch, of all its channels and frames."""
        return self.channels * self.size("temporal_patch_size", usual=1) * self.patch**2

    @property
    def grid(self) -> tuple[int, int]:
        """Patches of an image, down and across, as many as merge evenly."""
        merge = self.size("spatial_merge_size", "merge_size", usual=1)
        kernel = self.value("merge_kernel_size")
        if isinstance(kernel, Sequence) and kernel and isinstance(kernel[0], int):
            merge = max(1, kernel[0])
        side = max(1, min(self.image) // self.patch // (2 * merge)) * 2 * merge
        return side, side

    @property
    def bands(self) -> list[int]:
        """The bands of a spectrogram, and where they are stacked the width of the first layer's input."""
        names = ("num_mel_bins", "n_mels", "num_mel_bands", "input_feat_per_channel", "feat_in")
        stated = self.size(*names, "input_feat_size", "mel_bins", "feature_size", "input_dim", usual=80)
        first = next((it for it in self.model.modules() if isinstance(it, nn.Linear | nn.LayerNorm)), None)
        if first is None:
            return [stated]
        width = first.in_features if isinstance(first, nn.Linear) else first.normalized_shape[-1]
        return [*dict.fromkeys((stated, width))]

    @property
    def frames(self) -> int:
        """The frames of a spectrogram."""
        return min(FRAMES, 2 * self.size("max_source_positions", usual=FRAMES // 2))

    @property
    def width(self) -> int:
        """The width of hidden states."""
        return self.size("hidden_size", "d_model", "n_embd", "embed_dim", "dim", usual=512)


def _parts(config: Any) -> Iterator[Any]:
    """A config and those within it."""
    yield config
    for name in getattr(config, "sub_configs", ()) or ():
        part = getattr(config, name, None)
        if part is not None and part is not config:
            yield from _parts(part)


Maker = Callable[[ConfigSizes], Iterator[torch.Tensor]]


def _ids(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield torch.zeros(1, sizes.tokens, dtype=torch.int64)


def _floats(*shapes: Sequence[int]) -> Iterator[torch.Tensor]:
    """Tensors without values, of the shapes that a tensor can have."""
    possible = (shape for shape in shapes if min(shape) > 0 and prod(shape) <= MOST_ELEMENTS)
    return (torch.empty(*shape, device="meta") for shape in possible)


def _pixels(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    of_image = (sizes.channels, *sizes.image)
    down, across = sizes.grid
    patches = down * across, sizes.patch_values
    if sizes.value("spatial_merge_size", "merge_kernel_size", "merge_size"):
        yield from _floats(patches, (down * across, sizes.channels, sizes.patch, sizes.patch), (1, *patches))
    frames = sizes.size("num_frames", usual=1)
    yield from _floats((1, *of_image), (1, frames, *of_image), (1, *patches), (1, 2, *of_image))


def _patches(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    """Hidden states of patches, or of steps."""
    down, across = sizes.grid
    yield from _floats((down * across, sizes.patch_values))
    yield from _states(sizes)


def _grid(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield torch.tensor([[1, *sizes.grid]])
    yield torch.tensor([[*sizes.grid]])


def _video(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    frames = sizes.size("num_frames", "frames_per_clip", usual=8)
    yield from _floats((1, frames, sizes.channels, *sizes.image), (1, sizes.channels, frames, *sizes.image))


def _spectrogram(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    for bands in sizes.bands:
        yield from _floats((1, bands, sizes.frames), (1, sizes.frames, bands), (1, 1, sizes.frames, bands))


def _sound(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    samples = sizes.size("sampling_rate", "sample_rate", usual=SAMPLES)
    yield from _floats((1, samples), (1, 1, samples))
    for bands in sizes.bands:
        yield from _floats((1, sizes.frames, bands), (1, bands, sizes.frames))


def _states(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield from _floats((1, STEPS, sizes.width), (1, sizes.width, STEPS))


def _series(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    steps = sizes.size("context_length", usual=512)
    channels = sizes.size("num_input_channels", "input_size", usual=1)
    yield from _floats((1, steps, channels), (1, steps))


def _frames_mask(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield torch.ones(1, sizes.frames, dtype=torch.bool)
    yield torch.ones(1, sizes.frames, dtype=torch.int64)


def _text_mask(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield torch.ones(1, sizes.tokens, dtype=torch.int64)
    yield from _frames_mask(sizes)


def _boxes(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield torch.zeros(1, sizes.tokens, 4, dtype=torch.int64)
    yield torch.zeros(1, sizes.tokens, 4)


def _source(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    """Hidden states of an encoder."""
    width = sizes.size("encoder_hidden_size", "cross_attention_hidden_size", usual=sizes.width)
    yield from _floats((1, STEPS, width))


MAKERS: dict[str, Maker] = {
    **dict.fromkeys(OF_TEXT, _ids),
    "pixel_values": _pixels,
    "hidden_states": _patches,
    **dict.fromkeys(("grid_thw", "image_grid_thw", "target_sizes", "grid_hws"), _grid),
    "pixel_values_videos": _video,
    **dict.fromkeys(("input_features", "audio_mel", "decoder_input_values"), _spectrogram),
    **dict.fromkeys(("input_features_mask", "audio_mel_mask"), _frames_mask),
    "attention_mask": _text_mask,
    **dict.fromkeys(("token_type_ids", "position_ids"), _ids),
    "bbox": _boxes,
    "encoder_hidden_states": _source,
    "input_values": _sound,
    **dict.fromkeys(("inputs_embeds", "query_embeds", "latents", "action_embeds"), _states),
    "past_values": _series,
}
"""What makes each input, its likeliest shape first."""


def with_inputs(model: nn.Module, device: str, ask: Callable[[Inputs], Answer]) -> Answer:
    """The answer for the first inputs, on a device, that a model's forward takes.

    A run that fails may name what it lacks: the parameters of forward in the message or in the line that
    raises are tried next. Raises ArchError with what forward takes where none of the inputs will do, and
    RunError at once where fake tensors do not.
    """
    parameters = inspect.signature(model.forward).parameters
    needed = tuple(
        name for name, it in parameters.items() if it.default is it.empty and it.kind is not it.VAR_KEYWORD
    )
    main = getattr(model, "main_input_name", None)
    if not needed and isinstance(main, str) and main in parameters:
        needed = (main,)
    sizes, failures = ConfigSizes(model, device), Failures([*parameters])
    more = tuple(name for name in (*OF_TEXT, *OF_MEDIA) if name in parameters and name not in needed)
    sets = [needed, *((*needed, name) for name in more), (*needed, *more)]
    tried: set[frozenset[str]] = set()
    while sets and failures.count < MOST_TRIES:
        names = sets.pop(0)
        if frozenset(names) in tried or not names or any(name not in MAKERS for name in names):
            continue
        tried.add(frozenset(names))
        for tensors in islice(product(*(MAKERS[name](sizes) for name in names)), MOST_SHAPES):
            try:
                with seeded():
                    return ask(dict(zip(names, (_on(device, tensor) for tensor in tensors), strict=True)))
            except RunError as error:
                if error.needs_values:
                    raise
                lacking = tuple(name for name in failures.lacking(error) if name not in names)
                sets[:0] = [(*names, *lacking)] if lacking else []
    raise failures.error(model)


def _on(device: str, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, where it is to run with values."""
    if device == "meta":
        return tensor
    return torch.rand(tensor.shape, device=device) if tensor.is_meta else tensor.to(device)


class Failures:
    """Runs that failed, and the parameters of forward that they name."""

    def __init__(self, parameters: Sequence[str]) -> None:
        self.parameters, self.count = parameters, 0
        self.first: RunError | None = None

    def lacking(self, error: RunError) -> list[str]:
        """Keep an error; the parameters that its message or its line names."""
        self.first, self.count = self.first or error, self.count + 1
        words = set(re.findall(r"\w+", error.text.lower()))
        return [name for name in self.parameters if name in words and name in MAKERS]

    def error(self, model: nn.Module) -> ArchError:
        """The error about a forward for which no inputs can be made."""
        takes = ", ".join(self.parameters)
        hint = f"it takes {takes}: state them as --input 'input_ids=int64[1,8]' does"
        what = f"no inputs are known for the forward of {type(model).__name__}"
        return ArchError(f"{what}: {self.first.problems[0].what}" if self.first else what, hint)
