"""What makes each input of a class of transformers, by the input's name, its likeliest shape first.

maker_of("decoder_attention_mask")     # a mask's, by the end of the name
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import torch

from archcli.wings.running.runtime.classes.sizes import STEPS, ConfigSizes

MOST_ELEMENTS, MOST_WHOLE = 2**40, 2**26
"""Elements of the largest tensor, without values and with them."""

OF_TEXT = ("input_ids", "decoder_input_ids")
OF_MEDIA = ("pixel_values", "input_features", "input_values", "pixel_values_videos", "decoder_input_values")
"""Inputs that are tried where those that forward requires are not enough."""

Maker = Callable[[ConfigSizes], Iterator[torch.Tensor]]


def _wholes(value: int, *shapes: Sequence[int], dtype: torch.dtype = torch.int64) -> Iterator[torch.Tensor]:
    """Whole numbers, all alike, in the shapes that a tensor can have."""
    possible = (shape for shape in shapes if min(shape) > 0 and prod(shape) <= MOST_WHOLE)
    return (torch.full(tuple(shape), value, dtype=dtype) for shape in possible)


def _ids(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    tokens, books = sizes.tokens, sizes.codebooks
    yield from _wholes(0, (1, tokens))
    if books > 1:
        yield from _wholes(0, (1, tokens, books + 1), (1, tokens, books), (1, books, tokens))
    yield from _wholes(0, (1, tokens // 2))


def _floats(*shapes: Sequence[int]) -> Iterator[torch.Tensor]:
    """Tensors without values, of the shapes that a tensor can have."""
    possible = (shape for shape in shapes if min(shape) > 0 and prod(shape) <= MOST_ELEMENTS)
    return (torch.empty(*shape, device="meta") for shape in possible)


def _pixels(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    of_image, *larger = ((sizes.channels, *image) for image in sizes.images)
    down, across = sizes.grid
    patches = down * across, sizes.patch_values
    side = sizes.patch * sizes.merge
    if sizes.value("spatial_merge_size", "merge_kernel_size", "merge_size", "pooling_kernel_size"):
        yield from _floats(*((down * across, width) for width in dict.fromkeys((*sizes.widths, patches[1]))))
        yield from _floats((down * across, sizes.channels, sizes.patch, sizes.patch), (1, *patches))
        yield from _floats((down * across // sizes.merge**2, side, side, sizes.channels))
    frames = sizes.size("num_frames", usual=1)
    yield from _floats((1, *of_image), (1, frames, *of_image), (1, *patches), (1, 2, *of_image))
    yield from _floats(*((1, *image) for image in larger))


def _states(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    """Hidden states of steps, wide as the model is, or as the layer that met others."""
    for width in dict.fromkeys((*sizes.widths, sizes.width)):
        yield from _floats((1, STEPS, width), (1, width, STEPS))


def _patches(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    """Hidden states of patches, of steps, or sound."""
    down, across = sizes.grid
    yield from _floats((down * across, sizes.patch_values))
    yield from _states(sizes)
    yield from _floats((1, 1, sizes.samples))


def _grid(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    down, across = sizes.grid
    yield torch.tensor([[1, down, across]])
    yield torch.tensor([[down, across]])
    if sizes.merge > 1:
        yield torch.tensor([[1, down // sizes.merge, across // sizes.merge]])


def _merges(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield torch.tensor([sizes.merge if sizes.merge > 1 else 2])
    yield torch.tensor([1])


def _places(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    """Places of patches: column and row of each."""
    down, across = sizes.grid
    if down * across <= MOST_WHOLE:
        yield torch.cartesian_prod(torch.arange(across), torch.arange(down))[None]


def _video(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    frames = sizes.size("num_frames", "frames_per_clip", usual=8)
    yield from _floats((1, frames, sizes.channels, *sizes.image), (1, sizes.channels, frames, *sizes.image))


def _spectrogram(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    frames = sizes.frames
    for bands in sizes.bands:
        yield from _floats((1, bands, frames), (1, frames, bands), (1, 1, frames, bands))
    seconds = sizes.samples // sizes.size("hop_length", usual=sizes.samples)
    yield from _floats(*((1, seconds, bands) for bands in sizes.bands))  # as long as a second of sound
    square = sizes.size("spec_size", usual=0)
    layers = ((layers, bands) for layers in (1, 4) for bands in sizes.bands)
    yield from _floats(*((1, count, square * square // bands, bands) for count, bands in layers))


def _sound(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield from _floats((1, sizes.samples), (1, 1, sizes.samples))
    for bands in sizes.bands:
        yield from _floats((1, sizes.frames, bands), (1, bands, sizes.frames))


def _series(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    steps = sizes.size("context_length", usual=512)
    channels = sizes.size("num_input_channels", "input_size", usual=1)
    yield from _floats((1, steps, channels), (1, steps))


def _series_mask(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield from _wholes(0, (1, sizes.size("context_length", usual=512)))


def _mask(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    """Ones of a text, or of a spectrogram."""
    yield from _wholes(1, (1, sizes.tokens))
    yield from _frames_mask(sizes)


def _frames_mask(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    for dtype in (torch.bool, torch.int64):
        yield from _wholes(1, (1, sizes.frames), dtype=dtype)


def _patches_mask(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    """Whether patches are hidden: none is."""
    count = prod(sizes.image) // sizes.patch**2
    yield from _wholes(0, (1, count), dtype=torch.bool)


def _pixels_mask(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield from _wholes(1, *((1, *image) for image in sizes.images))


def _images_mask(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    """Which image each token of a text sees: the only one."""
    yield from _wholes(1, (1, sizes.tokens, 1))


def _boxes(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield from _wholes(0, (1, sizes.tokens, 4))
    yield torch.zeros(1, sizes.tokens, 4)


def _source(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    """Hidden states of an encoder."""
    width = sizes.size("encoder_hidden_size", "cross_attention_hidden_size", usual=sizes.width)
    yield from _floats((1, STEPS, width))
    yield from _states(sizes)


def _wide(*names: str, usual: int = 1) -> Maker:
    """Steps, wide as a key of the config says."""

    def make(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
        return _floats((1, STEPS, sizes.size(*names, usual=usual)))

    return make


def _steps(_sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield torch.arange(STEPS)[None]


def _task(sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    yield from _wholes(0, (1, sizes.size("task_seq_len", usual=77)))


def _kind(_sizes: ConfigSizes) -> Iterator[torch.Tensor]:
    """The kind of each series or sound, of a few."""
    yield torch.zeros(1, 1, dtype=torch.int64)


MAKERS: dict[str, Maker] = {
    "hidden_states": _patches,
    "inputs": _wide("d_model", usual=512),
    "bbox": _boxes,
    "encoder_hidden_states": _source,
    "merge_sizes": _merges,
    "pixel_position_ids": _places,
    "pixel_values_videos": _video,
    "states": _wide("state_dim"),
    "actions": _wide("act_dim"),
    "state": _wide("state_dim", "max_state_dim"),
    **dict.fromkeys(("rewards", "returns_to_go"), _wide()),
    "timesteps": _steps,
    "visual_feats": _wide("visual_feat_dim"),
    "visual_pos": _wide("visual_pos_dim", usual=4),
    "task_inputs": _task,
    "freq": _kind,
    "is_longer": _kind,
    "past_values": _series,
    "past_values_padding": _series_mask,
    "image_attention_mask": _images_mask,
    "prompt_masks": _pixels,
    **dict.fromkeys(("bool_masked_pos", "patches_masks"), _patches_mask),
    "pixel_mask": _pixels_mask,
    **dict.fromkeys(("input_features_mask", "audio_mel_mask"), _frames_mask),
    **dict.fromkeys(("audio_mel", "decoder_input_values"), _spectrogram),
    **dict.fromkeys(("target_sizes", "grid_hws"), _grid),
    "latents": _states,
}
"""Makers of inputs of these names."""
BY_END: dict[str, Maker] = {
    "pixel_values": _pixels,
    "grid_thw": _grid,
    "_ids": _ids,
    "attention_mask": _mask,
    "padding_mask": _mask,
    "input_features": _spectrogram,
    "input_values": _sound,
    "_embeds": _states,
    "hidden_states": _source,
    "_embeddings": _states,
}
"""Makers of inputs whose names end so. Inputs of one maker have one shape."""


def maker_of(name: str) -> Maker | None:
    """The maker of an input, by its name or how it ends."""
    return MAKERS.get(name) or next((make for end, make in BY_END.items() if name.endswith(end)), None)
