"""Front ends: convert features such as spectrograms to the vectors that an encoder reads.

B batch, S positions, D d_model.
"""

from __future__ import annotations

from typing import ClassVar

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.networks.activation import GELU, Activation
from archcli.modules.spec.base import Module, Size
from archcli.modules.spec.request import InputSpec
from archcli.ops import Conv1d, Transpose


class ConvFrontEnd(Module):
    """act(conv2(act(conv1 x))), both of kernel 3 and padding 1, the second halving the length.

    Whisper, arXiv:2212.04356 section 2.2.

    Reads a spectrogram [B, in_channels, 2 S] and writes [B, S, D].
    """

    group: ClassVar[str] = "conv_frontend"
    in_channels: Size = 80
    d_model: Size
    activation: Activation = GELU()

    def input(self, batch_size: Number, positions: Number) -> InputSpec:
        """The input features that give this many positions."""
        return InputSpec((batch_size, self.in_channels, 2 * positions), "features")

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, 2 S] to [B, S, D]."""
        x = self.activation(Conv1d("conv1", self.d_model, 3, padding=1)(x), name="activation1")
        x = self.activation(Conv1d("conv2", self.d_model, 3, stride=2, padding=1)(x), name="activation2")
        y: Tensor = Transpose("transpose")(x)
        return y
