"""Ops that keep large elements, or scale by numbers: trained, stored, chosen, or of the position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, Workspace
from archcli.ops.base import WHOLE_NUMBERS, View, bias, elementwise


@dataclass(frozen=True, slots=True, eq=False)
class GaussianTopK(Op):
    """max(x - (mean + z std), 0) over the last axis, z the normal distribution's quantile at `share`.

    Keeps about the 1 - share largest without sorting them (Spark Transformer, arXiv:2506.06644 section 3).
    Per element: a sum for the mean; subtract, square and add for the deviation; subtract the cutoff; the
    maximum 0. The gradient: a sum over those kept, a product with x, two subtractions.
    """

    sign: ClassVar[str] = "Gaussian top k"
    name: str
    share: float

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n = prod(x)
        gradient = Part("d_0", OpClass.NORMALIZATION, 4 * n, 2 * n, n, wrt=0)
        return (Part("threshold", OpClass.NORMALIZATION, 5 * n, n, n, (gradient,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        quantile = torch.special.ndtri(torch.tensor(self.share, device=x.device)).to(x.dtype)
        deviation = torch.std(x, dim=-1, keepdim=True, correction=0)
        return torch.relu(x - (x.mean(-1, keepdim=True) + deviation * quantile))


@dataclass(frozen=True, slots=True, eq=False)
class StoredScale(Op):
    """y = c x for a number c that is stored, not trained."""

    drawn: ClassVar[str] = "scale"
    sign: ClassVar[str] = "scale"
    name: str

    def buffers(self, x: Shape) -> dict[str, Shape]:
        return {"scale": (1,)}

    def initial(self, weight: str) -> float | None:
        return 1.0

    def parts(self, x: Shape) -> tuple[Part, ...]:
        return (elementwise("scale", prod(x)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x * weights["scale"]


@dataclass(frozen=True, slots=True, eq=False)
class ScaleChosen(Op):
    """Weights of chosen experts [B, T, k] times a trained number of each of `entries` experts, by index."""

    drawn: ClassVar[str] = "view"
    name: str
    entries: Number

    def weights(self, x: Shape, index: Shape) -> dict[str, Shape]:
        return {"scale": (self.entries,)}

    def initial(self, weight: str) -> float | None:
        return 1.0

    def parts(self, x: Shape, index: Shape) -> tuple[Part, ...]:
        n = prod(x)
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, 2 * n + self.entries, n, wrt=0),
            Part("d_scale", OpClass.NORMALIZATION, 2 * n, 3 * n, self.entries, wrt="scale"),
        )
        return (Part("scale", OpClass.ELEMENTWISE, n, 2 * n + self.entries, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, index: Any) -> Any:
        return x * weights["scale"][index].to(x.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedScale(Op):
    """y = c x for one trained number c, or one for each channel of the last axis, which starts at `start`.

    With `bias` y = c x + b, b a number as c is, which starts at 0. `offset` 1 stores c minus one.
    """

    drawn: ClassVar[str] = "scale"
    sign: ClassVar[str] = "scale"
    name: str
    per_channel: bool = False
    start: float = 1.0
    bias: bool = False
    offset: float = 0.0

    def weights(self, x: Shape) -> dict[str, Shape]:
        size = x[-1:] if self.per_channel else (1,)
        return {"scale": size} | ({"bias": size} if self.bias else {})

    def initial(self, weight: str) -> float | None:
        return 0.0 if weight == "bias" else self.start - self.offset

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, numbers = prod(x), prod(self.weights(x)["scale"])
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, n + numbers, n, wrt=0),
            Part("d_scale", OpClass.NORMALIZATION, 2 * n, 2 * n, numbers, wrt="scale"),
        )
        scaled = Part("scale", OpClass.ELEMENTWISE, n, n + numbers, n, gradients)
        return (scaled, bias(n, numbers)) if self.bias else (scaled,)

    def workspace(self, width: int, x: Shape) -> Workspace:
        """Bytes of the product before the bias, or of the factors computed from the stored scale."""
        shifted = prod(self.weights(x)["scale"]) if self.offset else 0
        return Workspace(width * (prod(x) if self.bias else shifted))

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        scale = weights["scale"].to(x.dtype)
        y = x * (scale + self.offset if self.offset else scale)
        return y + weights["bias"].to(x.dtype) if self.bias else y


@dataclass(frozen=True, slots=True, eq=False)
class GatedResidual(Op):
    """y = alpha x + beta b for the stream x and a branch b, with trained shares of each channel.

    beta = sigmoid(g / `temperature`) and alpha = sqrt(max(1 - beta^2, `least`)) for a trained g [D]: squares
    sum to 1, so that unrelated branches keep the stream's variance (Muse Spark). What is done once a channel
    is left out of the costs: an element has two products and a sum.
    """

    drawn: ClassVar[str] = "join"
    sign: ClassVar[str] = "+"
    follows_run: ClassVar[bool] = True
    name: str
    temperature: float
    least: float

    def weights(self, x: Shape, b: Shape) -> dict[str, Shape]:
        return {"gate": x[-1:]}

    def initial(self, weight: str) -> float | None:
        return 0.0

    def parts(self, x: Shape, b: Shape) -> tuple[Part, ...]:
        n, width = prod(x), x[-1]
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, n + width, n, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, n, n + width, n, wrt=1),
            # the gradient times x and times b, each summed over the tokens
            Part("d_gate", OpClass.NORMALIZATION, 4 * n, 3 * n, width, wrt="gate"),
        )
        return (Part("join", OpClass.ELEMENTWISE, 3 * n, 2 * n + width, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, b: Any) -> Any:
        gate = weights["gate"].float() / self.temperature
        beta = torch.sigmoid(gate)
        alpha = torch.sqrt(torch.clamp(torch.sigmoid(-gate) * (1.0 + beta), min=self.least))
        return (alpha * x + beta * b).to(x.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class WithinTable(Op):
    """Ids, with 0 in place of any beyond a table of `entries`."""

    drawn: ClassVar[str] = "view"
    name: str
    entries: Number
    zero_cost_reason: ClassVar[str] = WHOLE_NUMBERS

    def trained(self, grads: list[bool], ids: Shape) -> bool:
        return False

    def run(self, torch: Any, weights: dict[str, Any], ids: Any) -> Any:
        return torch.where(ids < self.entries, ids, 0)


@dataclass(frozen=True, slots=True, eq=False)
class QueryTemperature(Op):
    """q * (1 + scale * ln(1 + floor((position + first) / floor_scale))): q [B, T, H, d], positions [T].

    `first` is what the first token counts as: 1 in Llama 4, 0 in Ministral 3. `power` is the factor
    (1 + (position + first) / floor_scale)^scale, `above` 1 + scale * ln(max(1, (position + first) /
    floor_scale)).
    """

    drawn: ClassVar[str] = "view"
    follows_run: ClassVar[bool] = True
    name: str
    scale: float
    floor_scale: int
    first: int = 1
    power: bool = False
    above: bool = False

    def parts(self, q: Shape, positions: Shape) -> tuple[Part, ...]:
        return (elementwise("temper", prod(q)),)

    def run(self, torch: Any, weights: dict[str, Any], q: Any, positions: Any) -> Any:
        steps = (positions.float() + self.first) / self.floor_scale
        if self.power:
            factor = torch.exp(torch.log1p(steps) * self.scale)
        elif self.above:
            factor = torch.log(steps.clamp(min=1.0)) * self.scale + 1.0
        else:
            factor = torch.log1p(torch.floor(steps)) * self.scale + 1.0
        return (q * factor[:, None, None]).to(q.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Detach(View):
    """The input, through which no gradient flows back."""

    drawn: ClassVar[str] = "aside"
    name: str

    def trained(self, grads: list[bool], x: Shape) -> bool:
        return False

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        return x.detach()


@dataclass(frozen=True, slots=True, eq=False)
class Magnitude(Op):
    """y = m / |V| * (W x + factor B A x) + b with a trained m for each row of V = W + factor B A.

    Inputs: W x + b [..., out], B A x, W [out, in], A [r, in], B [out, r], and b where there is one. |V| is
    the norm of each row, without a gradient (DoRA, arXiv:2402.09353 equation 5 and section 4.3): a product
    makes B A; its elements are scaled, added to W, squared and summed.
    """

    sign: ClassVar[str] = "×"
    follows_run: ClassVar[bool] = True
    name: str
    factor: Number

    def weights(self, y: Shape, *more: Shape) -> dict[str, Shape]:
        return {"weight": y[-1:]}

    def parts(self, y: Shape, low: Shape, w: Shape, a: Shape, b: Shape, *bias: Shape) -> tuple[Part, ...]:
        n, matrix, out = prod(y), prod(w), w[0]
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, n + out, n, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, n, n, n, wrt=1),
            Part("d_weight", OpClass.NORMALIZATION, 2 * n + out, 2 * n + out, out, wrt="weight"),
        )
        per_element, read = 3 + 2 * len(bias), 2 * n + (2 + len(bias)) * out
        return (
            Part("merge", OpClass.CONTRACTION, 2 * matrix * a[0], prod(a) + prod(b), matrix),
            Part("norm", OpClass.NORMALIZATION, 4 * matrix + out, 2 * matrix, out),
            Part("magnitude", OpClass.ELEMENTWISE, per_element * n + out, read, n, gradients),
        )

    def run(self, torch: Any, weights: dict[str, Any], y: Any, low: Any, *more: Any) -> Any:
        w, a, b, *bias = (x.detach() for x in more)
        scale = weights["weight"] / torch.linalg.norm(w + self.factor * (b @ a), dim=1)
        if not bias:
            return scale * (y + self.factor * low)
        return scale * (y - bias[0] + self.factor * low) + bias[0]
