"""Front ends of sounds: patches or convolutions of a spectrogram, convolutions of a wave.

B batch, F frames, M mel bins, n samples, T positions, D width.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.networks.activation import GELU, Activation
from archcli.modules.spec.base import Size
from archcli.modules.spec.request import InputSpec, Medium, Request
from archcli.modules.spec.values import Interval, Length
from archcli.ops import (
    Add,
    Conv1d,
    Lookup,
    Positions,
    Transpose,
)
from archcli.wings.media.modules.ends.patches import FrontEnd

TOWER = "audio_tower"
SPECTROGRAM = ("frames", "seconds")
"""Units of a spectrogram's length; one in seconds is padded or cut to the usual length."""
USUAL_SECONDS = 30
"""Default seconds of a wave: Whisper's window."""


def _only(frames: int, medium: Medium) -> None:
    """Raise ArchError for a spectrogram of another length than its table of positions."""
    if medium.kind == "frames" and medium.size != (frames,):
        what = f"{medium.size[0]:,} frames are not read: positions are those of {frames:,}"
        raise ArchError(what, "sounds are padded or cut to that")


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
