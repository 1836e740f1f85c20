"""Sizes of inputs for a class of transformers, read off its config and its first layers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import nn

TOKENS, TOKENS_WITH_VALUES, PIXELS, FRAMES, SAMPLES, STEPS = 2048, 128, 224, 3000, 16_000, 64
"""Default sizes: tokens of a text, pixels, frames, samples of a second of sound, steps of a series."""
MULTIPLE = re.compile(r"(?:multiple of|divisible by) ([^,;.]*)")
WIDTHS = ("in_features", "in_channels", "num_features", "normalized_shape")
"""Attributes of a layer that state the width of its input."""


class ConfigSizes:
    """Sizes by a model's config, then by the configs of its parts; and by errors of failed runs.

    configs: the config, then its parts.
    widths: input widths of layers that failed with another width.
    multiple: sizes must be divisible by it, by an error.
    """

    def __init__(self, model: nn.Module, device: str) -> None:
        self.configs, self.model = [*_parts(model.config)], model
        self.most_tokens = TOKENS if device == "meta" else TOKENS_WITH_VALUES
        self.widths: list[int] = []
        self.multiple = 1

    def learn(self, error: BaseException | None) -> bool:
        """Keep the width or the multiple that an error asks for; returns whether it is new."""
        before = len(self.widths), self.multiple
        width = failed_width(error)
        if width and width not in self.widths:
            self.widths.append(width)
        match = MULTIPLE.search(str(error))
        numbers = re.findall(r"\d+", match.group(1)) if match else []
        if numbers and 0 < int(numbers[-1]) <= SAMPLES:
            self.multiple = int(numbers[-1])
        return before != (len(self.widths), self.multiple)

    def rounded(self, size: int) -> int:
        """A size rounded up to a multiple of `multiple`."""
        return -(-size // self.multiple) * self.multiple

    def value(self, *names: str) -> Any:
        """The first value at one of these keys; None without one."""
        return next(
            (value for value in self._values(names) if value is not None and value is not False), None
        )

    def size(self, *names: str, usual: int) -> int:
        """The first whole number above 0 at one of these keys."""
        numbers = (value for value in self._values(names) if type(value) is int and value > 0)
        return next(numbers, usual)

    def _values(self, names: Sequence[str]) -> Iterator[Any]:
        """The value at each key of each config; None where it lacks the key."""
        return (getattr(config, name, None) for config in self.configs for name in names)

    @property
    def tokens(self) -> int:
        """The tokens of a text, a power of two: RoBERTa's 514 positions hold 512 of them."""
        names = ("max_position_embeddings", "n_positions", "max_target_positions", "n_ctx", "max_seq_len")
        most = min(self.most_tokens, self.size(*names, usual=TOKENS))
        return 1 << (most.bit_length() - 1)

    @property
    def codebooks(self) -> int:
        """The parallel streams of ids that an audio model reads."""
        return self.size("num_codebooks", "n_codebooks", usual=1)

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
    def images(self) -> list[tuple[int, int]]:
        """Heights and widths to try: of the config, a square, a multiple of 4 patches, 4 x the square."""
        down, across = self.image
        side, window = min(down, across), 4 * self.patch
        even = side // window * window
        sizes = ((down, across), (side, side), (even, even), (4 * side, 4 * side))
        return [*dict.fromkeys((self.rounded(high), self.rounded(wide)) for high, wide in sizes)]

    @property
    def patch(self) -> int:
        """The side of a patch."""
        value = self.value("patch_size")
        if isinstance(value, Sequence) and value:
            value = value[-1]
        return value if isinstance(value, int) and value > 0 else 1

    @property
    def patch_values(self) -> int:
        """The numbers in a patch: channels * frames * height * width."""
        return self.channels * self.size("temporal_patch_size", usual=1) * self.patch**2

    @property
    def merge(self) -> int:
        """Side of the square of patches that are merged into one token."""
        kernel = self.value("merge_kernel_size")
        if isinstance(kernel, Sequence) and kernel and isinstance(kernel[0], int):
            return max(1, kernel[0])
        return self.size("spatial_merge_size", "merge_size", "pooling_kernel_size", usual=1)

    @property
    def grid(self) -> tuple[int, int]:
        """Patches of an image, down and across, divisible by twice `merge`."""
        side = max(1, min(self.image) // self.patch // (2 * self.merge)) * 2 * self.merge
        return side, side

    @property
    def bands(self) -> list[int]:
        """Bands of a spectrogram to try: of errors, of the config, of the first layer, of stacked frames."""
        names = ("num_mel_bins", "n_mels", "num_mel_bands", "input_feat_per_channel", "feat_in")
        n_bands = self.size(*names, "input_feat_size", "mel_bins", "feature_size", "input_dim", usual=80)
        stacked = n_bands * self.size("num_stacked_frames", usual=1)
        first = next((it for it in self.model.modules() if isinstance(it, nn.Linear | nn.LayerNorm)), None)
        return [*dict.fromkeys((*self.widths, n_bands, *input_width(first), stacked))]

    @property
    def frames(self) -> int:
        """The frames of a spectrogram."""
        # of the whole config alone: in a part the key counts tokens of text
        positions = next(self._values(("max_position_embeddings",)))
        most = positions if isinstance(positions, int) and positions > 0 else FRAMES
        return self.rounded(min(FRAMES, 2 * self.size("max_source_positions", usual=max(1, most // 2))))

    @property
    def samples(self) -> int:
        """The samples of a second of sound."""
        return self.rounded(self.size("sampling_rate", "sample_rate", usual=SAMPLES))

    @property
    def width(self) -> int:
        """The width of hidden states."""
        return self.size("hidden_size", "d_model", "n_embd", "embed_dim", "dim", usual=512)


def _parts(config: Any) -> Iterator[Any]:
    """A config and its `sub_configs`, outermost first."""
    yield config
    for name in getattr(config, "sub_configs", ()) or ():
        part = getattr(config, name, None)
        if part is not None and part is not config:
            yield from _parts(part)


def input_width(layer: nn.Module | None) -> Iterator[int]:
    """The width of a layer's input, if an attribute has it."""
    for name in WIDTHS:
        width = getattr(layer, name, None)
        if isinstance(width, Sequence) and width:
            width = width[-1]
        if isinstance(width, int) and width > 0:
            yield width


def failed_width(error: BaseException | None) -> int | None:
    """The input width of the layer that raised an error."""
    # the innermost frame of the traceback whose `self` is a module
    trace, layer = error.__traceback__ if error else None, None
    while trace is not None:
        held = trace.tb_frame.f_locals.get("self")
        layer = held if isinstance(held, nn.Module) else layer
        trace = trace.tb_next
    return next(input_width(layer), None)
