"""Front ends of sounds: patches or convolutions of a spectrogram, convolutions of a wave.

B batch, F frames, M mel bins, n samples, T positions, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number, Shape
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.ends.patches import FrontEnd, Patched
from archcli.modules.networks.activation import GELU, Activation
from archcli.modules.networks.norm import LayerNorm, Norm
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.request import InputSpec, Medium, Request
from archcli.modules.spec.values import Interval, Length
from archcli.ops import (
    Add,
    ChannelNormalize,
    Conv1d,
    ConvolvedPositions,
    Linear,
    Lookup,
    PoolBlocks,
    Positions,
    SpectrogramImage,
    Transpose,
    WaveChannel,
)

TOWER = "audio_tower"
SPECTROGRAM = ("frames", "seconds")
"""Units of a spectrogram's length; one in seconds is padded or cut to the usual length."""
SAMPLING_RATE = 16_000
"""Samples of a second: the rate that wav2vec 2.0 and its kin were trained at (arXiv:2006.11477 section 4)."""
USUAL_SECONDS = 30
"""Default seconds of a wave: Whisper's window."""


def _only(frames: int, medium: Medium) -> None:
    """Raise ArchError for a spectrogram of another length than its table of positions."""
    if medium.kind == "frames" and medium.size != (frames,):
        what = f"{medium.size[0]:,} frames are not read: positions are those of {frames:,}"
        raise ArchError(what, "sounds are padded or cut to that")


class SpectrogramPatches(Patched):
    """Patches of a spectrogram, an image of one channel with M mel bins as height.

    AST, arXiv:2104.01778 section 2.1. `image_size` is (M, F).
    """

    part: ClassVar[str] = TOWER
    media: ClassVar[tuple[str, ...]] = SPECTROGRAM
    kind: Literal["spectrogram_patches"] = "spectrogram_patches"
    in_channels: Size = 1

    @property
    def usual(self) -> Medium:
        """A spectrogram of the length of training."""
        return Medium("frames", self.image_size[1:])

    def medium(self, request: Request) -> Medium:
        """The spectrogram of a request. Raises ArchError for a length without positions."""
        medium = FrontEnd.medium(self, request)
        _only(self.image_size[1], medium)
        return medium

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """[B, F, M]."""
        return InputSpec((batch_size, self.image_size[1], self.image_size[0]), "features")

    def tokens(self, medium: Medium) -> int:
        """The patches, and the tokens in front of them."""
        return super().tokens(Medium("image", self.image_size))

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, F, M] to [B, T, D]."""
        return super().forward(SpectrogramImage("image")(x), d_model)


class ConvolvedSpectrogram(FrontEnd):
    """act(conv2(act(conv1 x))) + positions, the second convolution halving the length.

    Whisper, arXiv:2212.04356 section 2.2: both have kernel 3 and padding 1, and the table of `positions` is
    stored and not trained.
    """

    group: ClassVar[str] = "conv_frontend"
    part: ClassVar[str] = TOWER
    media: ClassVar[tuple[str, ...]] = SPECTROGRAM
    kind: Literal["convolved_spectrogram"] = "convolved_spectrogram"
    n_mels: Size = 80
    positions: Size = 1500
    activation: Activation = GELU()

    @property
    def usual(self) -> Medium:
        """The one length that has positions."""
        return Medium("frames", (2 * self.positions,))

    def medium(self, request: Request) -> Medium:
        """The spectrogram of a request; ArchError for one of another length."""
        medium = super().medium(request)
        _only(2 * self.positions, medium)
        return medium

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """[B, M, 2 T]."""
        return InputSpec((batch_size, self.n_mels, 2 * self.positions), "features")

    def tokens(self, medium: Medium) -> int:
        """T."""
        return self.positions

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, M, 2 T] to [B, T, D]."""
        y = self.activation(Conv1d("conv1", d_model, 3, padding=1)(x), name="activation1")
        y = self.activation(Conv1d("conv2", d_model, 3, stride=2, padding=1)(y), name="activation2")
        y = Transpose("transpose")(y)
        table = Lookup("positions", self.positions, d_model, frozen=True)
        looked_up = table(Positions("order")(y), group="frozen_positional")
        total: Tensor = Add("positions_add")(y, looked_up)
        return total


Sizes = Annotated[tuple[Size, ...], Length(1)]
Whole = Annotated[int, Interval(ge=1)]
"""A whole number, never a symbol: it sets the number of layers, or divides a sound's length."""


class ConvolvedWave(FrontEnd):
    """Convolutions of a wave, N and W to D, and a convolution that gives positions: x + act(conv x).

    wav2vec 2.0, arXiv:2006.11477 section 2. Layer i has `channels` i, `kernels` i and `strides` i, with a
    bias where `bias` says so. `normalized` first normalizes the channels of the first layer over time, every
    all channels at each time. `input_norm` is the norm before the matrix that leads to D. `norm` follows
    positions (none in models whose layers normalize first). Convolved positions have `position_kernel` taps,
    whose lengths are trained apart from their directions (`weight_norm`); left out, there are none.
    `position_layers` of them follow each other, each normalized by `position_norm` before its activation
    (data2vec, arXiv:2202.03555). `projects` false leaves the matrix out, where W is D. With `squeeze` s the
    mean of each s positions in a row is one, and convolved positions are as many (SEW, arXiv:2109.06870
    section 4.2).
    """

    group: ClassVar[str] = "conv_frontend"
    part: ClassVar[str] = TOWER
    media: ClassVar[tuple[str, ...]] = ("samples", "seconds")
    kind: Literal["convolved_wave"] = "convolved_wave"
    channels: Sizes
    kernels: Sizes
    strides: Sizes
    bias: bool = False
    normalized: Literal["first", "every"] = "first"
    activation: Activation = GELU()
    input_norm: Norm | None = LayerNorm()
    projects: bool = True
    squeeze: Whole | None = None
    position_kernel: Size | None = 128
    position_groups: Size = 16
    position_layers: Whole = 1
    position_norm: Norm | None = None
    weight_norm: bool = True
    norm: Norm | None = None

    @property
    def usual(self) -> Medium:
        """30 seconds."""
        return Medium("seconds", (USUAL_SECONDS,))

    def samples(self, medium: Medium) -> int:
        """Samples of a wave, or of so many seconds."""
        return medium.size[0] * (SAMPLING_RATE if medium.kind == "seconds" else 1)

    def medium(self, request: Request) -> Medium:
        """The wave of a request. Raises ArchError for one shorter than one position needs."""
        medium = super().medium(request)
        if self.tokens(medium) < 1:
            raise ArchError(f"{self.samples(medium):,} samples are too few", "give a longer sound")
        return medium

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """[B, n]."""
        return InputSpec((batch_size, self.samples(medium)), "features")

    def tokens(self, medium: Medium) -> int:
        """Positions that layers read."""
        tokens: int = self.positions_of(self.samples(medium)) // (self.squeeze or 1)
        return tokens

    @property
    def squeezed(self) -> Number:
        """s."""
        return self.squeeze

    def positions_of(self, samples: Number) -> Number:
        """Positions behind the last convolution, before they are squeezed."""
        length = samples
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            length = (length - kernel) // stride + 1
        return length

    def unsqueezed(self, shape: Shape) -> Number:
        """Positions behind the last convolution, of a wave [B, n]."""
        return self.positions_of(shape[1])

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, n] to [B, T, D]."""
        y: Tensor = WaveChannel("wave")(x)
        for i, sizes in enumerate(zip(self.channels, self.kernels, self.strides, strict=True)):
            y = self._layer(y, i, *sizes)
        y = Transpose("transpose")(y)
        y = y if self.input_norm is None else self.input_norm(y, name="input_norm")
        y = Linear("project", d_model, True)(y) if self.projects else y
        if self.position_kernel is not None:
            places = y
            for i in range(self.position_layers):
                places = self._placed(places, self.position_kernel, str(i or ""))
            y = Add("positions_add")(self._squeezed(y), places)
        return y if self.norm is None else self.norm(y, name="norm")

    def _squeezed(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, T // s, D]."""
        if self.squeeze is None:
            return x
        mean: Tensor = PoolBlocks("squeeze", (x.shape[1], 1), (self.squeeze, 1))(x)
        return mean

    def _placed(self, x: Tensor, kernel: int, end: str) -> Tensor:
        """act(N(conv x)) of a layer of positions, [B, T, D]; its names have this end."""
        options = (kernel, self.position_groups, self.weight_norm, self.squeeze or 1)
        moved = ConvolvedPositions(f"positions{end}", *options)
        y = moved(Transpose(f"channels_first{end}")(x), group="position_embedding")
        if self.position_norm is None:
            y = self.activation(y, name=f"positions_activation{end}")
            last: Tensor = Transpose(f"channels_last{end}")(y)
            return last
        y = self.position_norm(Transpose(f"channels_last{end}")(y), name=f"positions_norm{end}")
        activated: Tensor = self.activation(y, name=f"positions_activation{end}")
        return activated

    def _layer(self, x: Tensor, i: int, channels: Number, kernel: int, stride: int) -> Tensor:
        """act(N(conv x)) of layer i, [B, C, n] to [B, C', n']."""
        y: Tensor = Conv1d(f"conv{i}", channels, kernel, stride=stride, bias=self.bias)(x)
        if self.normalized == "every":
            normed = LayerNorm()(Transpose(f"conv{i}_last")(y), name=f"conv{i}_norm")
            y = Transpose(f"conv{i}_first")(normed)
        elif i == 0:
            y = ChannelNormalize("conv0_norm")(y, group="norms")
        activated: Tensor = self.activation(y, name=f"conv{i}_activation")
        return activated

    def check(self) -> Iterator[Conflict]:
        """Conflicts: lists of different lengths; positions that are squeezed without being convolved once."""
        yield from super().check()
        if len({len(self.channels), len(self.kernels), len(self.strides)}) > 1:
            what = "channels, kernels and strides have an entry for each layer"
            yield Conflict("wave-layers", "kernels", what, "make the lists as long as each other")
        if self.squeeze is not None and (self.position_kernel is None or self.position_layers > 1):
            what = "squeeze needs positions of one convolution, whose stride it is"
            yield Conflict("wave-squeeze", "squeeze", what, "leave it out, or write position_layers: 1")


__all__ = ["ConvolvedSpectrogram", "ConvolvedWave", "SpectrogramPatches"]
