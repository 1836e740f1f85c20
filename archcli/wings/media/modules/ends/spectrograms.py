"""Front ends of spectrograms of any length: frames as they are, or fewer of them by convolutions.

B batch, F frames, M mel bins, C channels, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number, Shape, ceil_div, is_less, is_whole, minimum
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.networks.activation import GELU, Activation, ReLU
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Count, Positive, Size
from archcli.modules.spec.request import InputSpec, Medium, Request
from archcli.modules.spec.values import Length
from archcli.ops import (
    Add,
    ChannelsFirst,
    ChannelsLast,
    Conv1d,
    Conv2d,
    CutSpans,
    FlattenFrames,
    FramesImage,
    JoinSpans,
    Linear,
    Positions,
    Scale,
    Sinusoid,
    Transpose,
    Widen,
)
from archcli.wings.media.modules.ends.patches import FrontEnd
from archcli.wings.media.modules.ends.sounds import SPECTROGRAM, TOWER, USUAL_SECONDS

Channels = Annotated[tuple[Size, ...], Length(1)]


class FramesEnd(FrontEnd):
    """Base of front ends that read a spectrogram [B, F, M] of any number of frames.

    `n_mels` are the numbers of a frame, `rate` the frames of a second; more than `most` frames are not read.
    Of seconds a processor makes `beyond` frames more (Nemotron Omni).
    """

    group: ClassVar[str] = "conv_frontend"
    part: ClassVar[str] = TOWER
    media: ClassVar[tuple[str, ...]] = SPECTROGRAM
    n_mels: Size = 80
    rate: Size = 100
    most: Size | None = None
    beyond: Count = 0

    @property
    def usual(self) -> Medium:
        """30 seconds."""
        return Medium("frames", (self.frames(Medium("seconds", (USUAL_SECONDS,))),))

    def medium(self, request: Request) -> Medium:
        """The spectrogram of a request, in frames; ArchError for one that is shorter than the first token."""
        frames = self.frames(super().medium(request))
        # a formula has symbols for the rate and the kernels
        if is_less(self.tokens(Medium("frames", (frames,))), 1):
            raise ArchError(f"{frames:,} frames are too few", "give a longer sound")
        if self.most is not None and is_less(self.most, frames):
            raise ArchError(f"{frames:,} frames are not read: {self.most:,} at most", "give a shorter sound")
        return Medium("frames", (frames,))

    def frames(self, medium: Medium) -> int:
        """Frames that are read of so many seconds, or frames."""
        return medium.size[0] * self.rate + self.beyond if medium.kind == "seconds" else medium.size[0]

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """[B, F, M]."""
        return InputSpec((batch_size, medium.size[0], self.n_mels), "features")

    def length(self, frames: int) -> int:
        """Tokens of so many frames, which are convolved together."""
        return frames

    def tokens(self, medium: Medium) -> int:
        """T."""
        return self.length(medium.size[0])


class PlainFrames(FramesEnd):
    """y = W x + b for each frame (Granite Speech).

    Frames that are stacked two by two have the mel bins of both.
    """

    kind: Literal["frames"] = "frames"

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, F, M] to [B, F, D]."""
        projected: Tensor = Linear("project", d_model, True)(x)
        return projected


class ChunkedFrames(FramesEnd):
    """Base of front ends that convolve a spectrogram in chunks of `chunk` frames, each by itself.

    A last, shorter chunk is padded with zeros; a sound of less than a chunk only where chunks are `whole`
    (Qwen3-ASR). `sinusoids` are fixed positions, which begin anew in each
    chunk. Layers are given a grid of T rows and one column, in which windows lie.
    """

    chunk: Size | None = None
    whole: bool = False
    sinusoids: bool = False

    def tokens(self, medium: Medium) -> int:
        """Those of whole chunks, and of the last."""
        frames = medium.size[0]
        if self.chunk is None:
            return self.length(frames)
        whole = frames // self.chunk
        return whole * self.length(self.chunk) + self.length(frames - whole * self.chunk)

    def grid_read(self, shape: Shape) -> tuple[Number, int] | None:
        """(T, 1) where there are chunks."""
        return None if self.chunk is None else (self.tokens(Medium("frames", (shape[1],))), 1)

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, F, M] to [B, T, D]."""
        frames = x.shape[1]
        if self.chunk is not None:
            x = CutSpans("chunks", self.chunk if self.whole else minimum(self.chunk, frames))(x)
        y = self.convolved(x, d_model)
        if self.sinusoids:
            table = Sinusoid("sinusoids", d_model, pairing="half")(Positions("order")(y))
            y = Add("sinusoids_add")(y, table)
        if self.chunk is not None:
            y = JoinSpans("joined", self.tokens(Medium("frames", (frames,))))(y)
        return y

    def convolved(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, F, M] of one chunk each to [B, T, D]."""
        raise NotImplementedError


class ChunkedSpectrogram(ChunkedFrames):
    """act(conv2(act(conv1 x))) as Whisper has it, in chunks. Qwen2.5-Omni, arXiv:2503.20215 section 2.2.

    Both convolutions have kernel 3 and padding 1, and mel bins as channels; the second halves the length.
    """

    kind: Literal["chunked_spectrogram"] = "chunked_spectrogram"
    n_mels: Size = 128
    chunk: Size | None = 200
    sinusoids: bool = True
    activation: Activation = GELU()

    def length(self, frames: int) -> int:
        """Half of them, rounded up."""
        return (frames + 1) // 2

    def convolved(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, F, M] to [B, F / 2, D]."""
        y = Transpose("first")(x)
        y = self.activation(Conv1d("conv1", d_model, 3, padding=1)(y), name="activation1")
        y = self.activation(Conv1d("conv2", d_model, 3, stride=2, padding=1)(y), name="activation2")
        last: Tensor = Transpose("last")(y)
        return last


class CausalSpectrogram(FramesEnd):
    """act(conv2(act(conv1 x))) as Whisper has it, with zeros before the first frame alone.

    Voxtral Realtime. Both convolutions have kernel 3, and mel bins as channels; the second halves the length.
    Each vector goes by earlier frames alone, and layers with `causal` attention keep that. `joined` vectors
    in a row become one token: seconds are padded to whole tokens, and frames that make none are refused.
    """

    causal: ClassVar[bool] = True
    kind: Literal["causal_spectrogram"] = "causal_spectrogram"
    n_mels: Size = 128
    joined: Size = 1
    activation: Activation = GELU()

    def frames(self, medium: Medium) -> int:
        """Frames that are read: of seconds those of whole tokens."""
        frames, whole = super().frames(medium), 2 * self.joined
        if medium.kind == "seconds":
            return ceil_div(frames, whole) * whole
        # a formula has a symbol for the number that is joined
        if is_whole(whole) and frames % whole:
            what = f"{frames:,} frames are no whole tokens of {whole}"
            raise ArchError(what, f"the class reads multiples of {whole}")
        return frames

    def length(self, frames: int) -> int:
        """Half of them."""
        return frames // 2

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """[B, M, F]."""
        return InputSpec((batch_size, self.n_mels, medium.size[0]), "features")

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, M, F] to [B, F / 2, D]."""
        y: Tensor = x
        for i, stride in ((1, 1), (2, 2)):
            y = Widen(f"pad{i}", before=3 - stride)(y)
            y = self.activation(Conv1d(f"conv{i}", d_model, 3, stride=stride)(y), name=f"activation{i}")
        last: Tensor = Transpose("last")(y)
        return last


class SubsampledSpectrogram(ChunkedFrames):
    """Convolutions over frames and mel bins, then W of all that became of a frame.

    Layer i has `channels` i, and makes both axes `stride` times shorter, with `kernel` taps and half as many
    zeros around. `separable` layers but the first are a kernel for each channel, then a matrix
    (FastConformer, arXiv:2305.05084). `conv_bias` and `bias` are those of convolutions and of W; `norm`
    is over channels (Gemma 4). `scale` multiplies the result.
    """

    kind: Literal["subsampled_spectrogram"] = "subsampled_spectrogram"
    channels: Channels
    kernel: Size = 3
    stride: Size = 2
    separable: bool = False
    conv_bias: bool = True
    bias: bool = True
    norm: Norm | None = None
    activation: Activation = ReLU()
    scale: Positive = 1.0

    def length(self, frames: int) -> int:
        """Behind all layers."""
        for _ in self.channels:
            frames = (frames + 2 * ((self.kernel - 1) // 2) - self.kernel) // self.stride + 1
        return frames

    def convolved(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, F, M] to [B, T, D]."""
        y: Tensor = FramesImage("image")(x)
        for i, channels in enumerate(self.channels):
            y = self._layer(y, i, channels)
        y = Linear("project", d_model, self.bias)(FlattenFrames("flatten")(y))
        return y if self.scale == 1.0 else Scale("scale", self.scale)(y)

    def _layer(self, x: Tensor, i: int, channels: Number) -> Tensor:
        """act(N(conv x)) of layer i, [B, C, F, M] to [B, C', F', M']."""
        split = self.separable and i > 0
        around, n = (self.kernel - 1) // 2, 1 if not split else channels
        sides = ((self.kernel, self.kernel), (self.stride, self.stride), (around, around))
        y: Tensor = Conv2d(f"conv{i}", channels, *sides, groups=n, bias=self.conv_bias)(x)
        if split:
            y = Conv2d(f"pointwise{i}", channels, (1, 1), bias=self.conv_bias)(y)
        if self.norm is not None:
            normed = self.norm(ChannelsLast(f"conv{i}_last")(y), name=f"conv{i}_norm")
            y = ChannelsFirst(f"conv{i}_first")(normed)
        activated: Tensor = self.activation(y, name=f"activation{i}")
        return activated

    def check(self) -> Iterator[Conflict]:
        """Conflicts: separable layers of unequal channels."""
        yield from super().check()
        if self.separable and len(set(self.channels)) > 1:
            what = "separable layers keep the number of channels"
            yield Conflict("separable-channels", "channels", what, "state equal ones")
