"""Steps on a grid: convolutions with norm and activation, pooling, squeeze-and-excitation.

B batch, h and w rows and columns, C channels. Convolutional networks are stems and layers of these steps.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from archcli.arith import Number, ceil_div, maximum
from archcli.graph import Tensor
from archcli.modules.networks.activation import Activation, ReLU, Sigmoid
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Count, Module, Positive, Size
from archcli.modules.spec.values import Length
from archcli.ops import (
    Add,
    ChannelsFirst,
    ChannelsLast,
    Conv2d,
    MeanPlaces,
    Multiply,
    PadPlaces,
    Parameter,
    PoolPlaces,
    Scale,
    StandardizedConv2d,
    TrainedScale,
)

Around = Annotated[tuple[Count, ...], Length(4, 4)]
"""Zeros left, right, above and below."""
Grid = tuple[Any, Any]


class GridStep(Module):
    """A step from one grid [B, h, w, C] to another."""

    family: ClassVar[str] = "grid_step"
    default_kind: ClassVar[str] = "conv"
    group: ClassVar[str] = "convolutions"

    def places_after(self, grid: Grid) -> Grid:
        """Rows and columns behind the step."""
        return grid

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to the grid behind the step."""
        raise NotImplementedError


class ConvolutionStep(GridStep):
    """act(N(conv x)): a convolution, its norm and its activation, each of the two if there is one.

    out: channels behind it; left out, as many as before.
    kernel: rows of the kernel; `columns` where it has another number of them.
    stride: places from one kernel to the next.
    padding: zeros on every side; left out, half of the kernel, rounded down. `around` states each side by
    itself; with `same` they are as many as give (side / stride) places, rounded up, the odd one below and to
    the right (TensorFlow's rule).
    groups: channels of a group read those of their group alone; with `depthwise` each its own.
    standardized: kernels have mean 0 and variance 1 (arXiv:1903.10520); the number is the variance's eps.
    With `affine` one trained number multiplies all behind the activation, and another is added.
    """

    kind: Literal["conv"] = "conv"
    out: Size | None = None
    kernel: Size = 3
    columns: Size | None = None
    stride: Size = 1
    padding: Count | None = None
    around: Around | None = None
    same: bool = False
    groups: Size = 1
    depthwise: bool = False
    bias: bool = False
    standardized: Positive | None = None
    norm: Norm | None = None
    activation: Activation | None = None
    affine: bool = False

    @property
    def sides(self) -> tuple[Number, Number]:
        """Rows and columns of the kernel."""
        return self.kernel, self.kernel if self.columns is None else self.columns

    def padded(self, grid: Grid) -> tuple[Number, Number, Number, Number]:
        """Zeros left, right, above and below a grid."""
        if self.around is not None:
            left, right, top, bottom = self.around
            return left, right, top, bottom
        rows, columns = (self._along(n, k) for n, k in zip(grid, self.sides, strict=True))
        return (*columns, *rows)

    def _along(self, n: Number, kernel: Number) -> tuple[Number, Number]:
        """Zeros before and behind n places."""
        if not self.same:
            half = kernel // 2 if self.padding is None else self.padding
            return half, half
        total = maximum((ceil_div(n, self.stride) - 1) * self.stride + kernel - n, 0)
        return total // 2, total - total // 2

    def places_after(self, grid: Grid) -> Grid:
        """(side + zeros - kernel) // stride + 1 rows and columns."""
        left, right, top, bottom = self.padded(grid)
        rows, columns = self.sides
        h = (grid[0] + top + bottom - rows) // self.stride + 1
        return h, (grid[1] + left + right - columns) // self.stride + 1

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to [B, h', w', out]."""
        channels = x.shape[3]
        out = channels if self.out is None else self.out
        padding = (0, 0)
        if self.same or self.around is not None:
            x = PadPlaces("pad", self.padded(x.shape[1:3]))(x)
        else:
            left, _, top, _ = self.padded(x.shape[1:3])
            padding = (top, left)
        groups = channels if self.depthwise else self.groups
        stride = (self.stride, self.stride)
        conv = Conv2d("conv", out, self.sides, stride, padding, groups, self.bias)
        if self.standardized is not None:
            options = (out, self.sides, stride, padding, groups, self.bias, self.standardized)
            conv = StandardizedConv2d("conv", *options)
        y: Tensor = ChannelsLast("last")(conv(ChannelsFirst("first")(x)))
        y = y if self.norm is None else self.norm(y, name="norm")
        y = y if self.activation is None else self.activation(y, name="activation")
        if not self.affine:
            return y
        scaled = TrainedScale("affine")(y, group="norms")
        shifted: Tensor = Add("affine_add", meets=False)(
            scaled, Parameter("affine_shift", (1,))(y, group="norms")
        )
        return shifted


class PaddedStep(GridStep):
    """Zeros around the grid, `size` places on every side, or as many as `around` says of each."""

    kind: Literal["pad"] = "pad"
    size: Size = 1
    around: Around | None = None

    def places_after(self, grid: Grid) -> Grid:
        """So many more rows and columns."""
        left, right, top, bottom = self.sides
        return grid[0] + top + bottom, grid[1] + left + right

    @property
    def sides(self) -> tuple[Number, Number, Number, Number]:
        """Zeros left, right, above and below."""
        if self.around is None:
            return self.size, self.size, self.size, self.size
        left, right, top, bottom = self.around
        return left, right, top, bottom

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to [B, top + h + bottom, left + w + right, C]."""
        padded: Tensor = PadPlaces("pad", self.sides)(x)
        return padded


class NormalizedStep(GridStep):
    """c act(N x) without a convolution, each of the two if there is one; `factor` is c (PP-LCNet)."""

    kind: Literal["norm"] = "norm"
    norm: Norm | None = None
    activation: Activation | None = None
    factor: Positive = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to [B, h, w, C]."""
        y = x if self.norm is None else self.norm(x, name="norm")
        y = y if self.activation is None else self.activation(y, name="activation")
        return y if self.factor == 1.0 else Scale("factor", self.factor)(y)


class PooledStep(GridStep):
    """The largest, or the mean, of each `kernel` x `kernel` places, every `stride` of them."""

    kind: Literal["pool"] = "pool"
    reduction: Literal["max", "mean"] = "max"
    kernel: Size = 3
    stride: Size = 2
    padding: Count = 0

    def places_after(self, grid: Grid) -> Grid:
        """(side + 2 padding - kernel) // stride + 1 rows and columns."""
        h, w = ((n + 2 * self.padding - self.kernel) // self.stride + 1 for n in grid)
        return h, w

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to [B, h', w', C]."""
        pooled: Tensor = PoolPlaces("pool", self.reduction, self.kernel, self.stride, self.padding)(x)
        return pooled


class MeanStep(GridStep):
    """The mean of all places, a grid of one place."""

    kind: Literal["mean"] = "mean"

    def places_after(self, grid: Grid) -> Grid:
        """One place."""
        return 1, 1

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to [B, 1, 1, C]."""
        mean: Tensor = MeanPlaces("mean")(x)
        return mean


class SqueezeStep(GridStep):
    """x gate(W2 act(W1 mean(x))): each channel times a number that the means of all channels give.

    Squeeze-and-excitation, arXiv:1709.01507. `width` is what W1 makes of the channels.
    """

    kind: Literal["squeeze"] = "squeeze"
    width: Size
    activation: Activation = ReLU()
    gate: Activation = Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] to [B, h, w, C]."""
        mean = ChannelsFirst("mean_first")(MeanPlaces("mean")(x))
        inner = self.activation(Conv2d("reduce", self.width, (1, 1))(mean), name="activation")
        gate = self.gate(Conv2d("expand", x.shape[3], (1, 1))(inner), name="gate")
        gated: Tensor = Multiply("gated")(x, ChannelsLast("gate_last")(gate))
        return gated


def run_grid_steps(steps: tuple[GridStep, ...], x: Tensor, name: str) -> Tensor:
    """The grid behind all steps, each called `name`.number."""
    for number, step in enumerate(steps):
        x = step(x, name=f"{name}.{number}")
    return x


def grid_after(steps: tuple[GridStep, ...], grid: Grid) -> Grid:
    """Rows and columns behind all steps."""
    for step in steps:
        grid = step.places_after(grid)
    return grid
