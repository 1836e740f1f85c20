"""Normalize: LayerNorm and RMSNorm, with or without weights, as one op; BatchNormalize."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from archcli.arith import Number, Shape, is_one, maximum, prod
from archcli.graph import Op, OpClass, Part, Traits, Workspace
from archcli.graph.kept import FP32, Call
from archcli.graph.part import NO_WORKSPACE
from archcli.ops import base


@dataclass(frozen=True, slots=True, eq=False)
class Normalize(Op):
    """y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * (offset + weight) + bias over the last axis.

    LayerNorm (arXiv:1607.06450) is centred; RMSNorm (arXiv:1910.07467) is not, its mean is taken as 0. The
    weight spans the last `axes` of the input: 1 is [d]; 2 is [H, d], a gain per head. `offset` 1 stores the
    weight minus one (Gemma). With `groups` n each n-th of the axis has a statistic of its own (Mamba-2).
    """

    sign: ClassVar[str] = "norm"
    name: str
    eps: float
    centred: bool = False
    weight: bool = True
    bias: bool = False
    offset: float = 0.0
    axes: int = 1
    groups: Number = 1

    def weights(self, x: Shape) -> dict[str, Shape]:
        size = x[len(x) - self.axes :]
        return ({"weight": size} if self.weight else {}) | ({"bias": size} if self.bias else {})

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, width = prod(x), sum((prod(size) for size in self.weights(x).values()), 0)
        # the convention's figures are with a gain and a bias, which are added where there are any
        full, back, weight = (
            (base.LAYERNORM_FORWARD - 2, base.LAYERNORM_BACKWARD, base.LAYERNORM_WEIGHT)
            if self.centred
            else (base.RMSNORM_FORWARD - 1, base.RMSNORM_BACKWARD, base.RMSNORM_WEIGHT)
        )
        per_element = full + self.weight + self.bias
        gradients = [Part("d_0", OpClass.NORMALIZATION, back * n, 2 * n + width, n, wrt=0)]
        if self.weight or self.bias:
            of = "weight" if self.weight else "bias"
            gradients.append(Part("d_weight", OpClass.NORMALIZATION, weight * n, 2 * n, width, wrt=of))
        return (Part("normalize", OpClass.NORMALIZATION, per_element * n, n + width, n, tuple(gradients)),)

    def traits(self, *xs: Shape) -> Traits:
        return Traits(norm="layernorm" if self.centred else "rmsnorm")

    def space(self, call: Call, x: Shape) -> Workspace:
        """What RMSNorm makes step by step, on a CPU.

        Forward: the input, its normalized numbers and those times the gain, in fp32. Backward: six tensors in
        fp32, what is kept among them, when the gradient of the square's mean is added.
        """
        if not call.execution.records:
            return Workspace(self._running(call, x))
        if self.centred or call.on_cuda:
            return NO_WORKSPACE
        n, width, inside = prod(x), call.widths[0], self._gains_in_kernel(call)
        statistics = FP32 * prod(x[:-1]) * self.groups
        running = FP32 * n * ((0 if call.in_fp32 else 2) + (self.weight and inside)) + statistics
        if not call.grads[0]:
            return Workspace(running, lets_go=True)
        kept = FP32 * n + statistics + (self._gains(call, x) * call.width if self._makes_gain(call) else 0)
        if self.weight and call.trained:
            kept = kept + n * (FP32 if inside else width)
        return Workspace(running, 6 * FP32 * n - kept - n * width, lets_go=True)

    def _running(self, call: Call, x: Shape) -> Number:
        """Peak bytes of a run without a backward: tensors that later steps of the norm read."""
        n, width, rows = prod(x), call.widths[0], prod(x[:-1]) * self.groups
        gain = self._gains(call, x) * call.width if self._makes_gain(call) else 0
        # a mean and an inverse deviation for each row; RMSNorm has the latter alone
        if self.centred:
            normalizing = 2 * rows * (FP32 if call.on_cuda else width)
        elif call.on_cuda:
            normalizing = FP32 * rows
        else:
            normalizing = self._running_in_steps(call, n, rows) - n * width
        after = 0 if self._gains_in_kernel(call) or not (self.weight or self.bias) else n * width
        return gain + maximum(normalizing, after)

    def _running_in_steps(self, call: Call, n: Number, rows: Number) -> Number:
        """Bytes of RMSNorm on a CPU: squares and their means, then the normalized times the gain, in fp32."""
        copied = not call.in_fp32
        squares = FP32 * (n * (copied + 1) + 2 * rows)
        inside = self.weight and self._gains_in_kernel(call)
        return maximum(squares, FP32 * (n * (copied + 2) + rows)) if inside else squares

    def _gains_in_kernel(self, call: Call) -> bool:
        """Whether torch's kernel applies the gain: one of the normalized axis, which all rows share."""
        return self.normalizes_axis and call.n_experts is None

    def _makes_gain(self, call: Call) -> bool:
        """Whether the gain is a tensor made for this run: of a weight and 1, or of each row's expert."""
        return self.weight and (bool(self.offset) or call.n_experts is not None)

    def _gains(self, call: Call, x: Shape) -> Number:
        """Elements of that gain."""
        return prod(self.weights(x)["weight"]) if call.n_experts is None else prod(x)

    @property
    def normalizes_axis(self) -> bool:
        """Whether all of the last axis is normalized as one, by weights of that axis."""
        return self.axes == 1 and is_one(self.groups)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        gain, bias = self._gain(weights), weights["bias"] if self.bias else None
        if self.normalizes_axis and all(weight.dim() == 1 for weight in weights.values()):
            return self._by_kernel(torch, x, gain, bias)
        # torch's kernels take one gain of the last axis: one per head or expert is multiplied apart
        parted = x if is_one(self.groups) else x.unflatten(-1, (self.groups, -1))
        y = self._by_kernel(torch, parted, None, None).reshape(x.shape)
        y = y if gain is None else y * gain
        return y if bias is None else y + bias

    def _gain(self, weights: dict[str, Any]) -> Any:
        """What the normalized numbers are multiplied by; None for 1."""
        if not self.weight:
            return None
        return weights["weight"] + self.offset if self.offset else weights["weight"]

    def _by_kernel(self, torch: Any, x: Any, gain: Any, bias: Any) -> Any:
        """The last axis normalized by torch's kernel, whose statistics are in fp32."""
        last = x.shape[-1:]
        if self.centred:
            return torch.nn.functional.layer_norm(x, last, gain, bias, self.eps)
        # torch's rms_norm takes no bias
        y = torch.nn.functional.rms_norm(x, last, gain, self.eps)
        return y if bias is None else y + bias

    def initial(self, weight: str) -> float | None:
        return 1.0 - self.offset if weight == "weight" else 0.0

    @property
    def _is_leaf(self) -> bool:
        """Whether torch has a module for it."""
        if self.offset or self.axes > 1 or self.groups != 1 or not self.weight:
            return False
        return self.centred or not self.bias

    def leaf(self, nn: Any, x: Shape) -> Any:
        if not self._is_leaf:
            return None
        if self.centred:
            return nn.LayerNorm(x[-1], eps=self.eps, bias=self.bias)
        return nn.RMSNorm(x[-1], eps=self.eps)


@dataclass(frozen=True, slots=True, eq=False)
class LentNormalize(Op):
    """Normalize with the weights of another operation: inputs x [..., d], weight [d], and bias [d] if any."""

    sign: ClassVar[str] = "norm"
    name: str
    eps: float
    centred: bool = False
    offset: float = 0.0

    def parts(self, x: Shape, weight: Shape, *bias: Shape) -> tuple[Part, ...]:
        part = self._like(bias=bool(bias)).parts(x)[0]
        back, gain = part.backward
        lent = replace(gain, name="d_1", wrt=tuple(range(1, 2 + len(bias))))
        return (replace(part, backward=(back, lent)),)

    def traits(self, *xs: Shape) -> Traits:
        return self._like(bias=False).traits(*xs)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, weight: Any, *bias: Any) -> Any:
        lent = dict(zip(("weight", "bias"), (weight, *bias), strict=False))
        return self._like(bias=bool(bias)).run(torch, lent, x)

    def _like(self, *, bias: bool) -> Normalize:
        return Normalize(self.name, self.eps, self.centred, bias=bias, offset=self.offset)


STATISTICS = 3
"""FLOPs per element for mean and variance: a sum, a square of the centred element, a sum again.

They are three of LayerNorm's seven, and training's alone; every pass does the other four.
"""


@dataclass(frozen=True, slots=True, eq=False)
class BatchNormalize(Op):
    """y = (x - mean) / sqrt(var + eps) * weight + bias for each channel, the last axis.

    Ioffe & Szegedy 2015, arXiv:1502.03167. In training mean and variance are those of the channel over all
    other axes, and their running averages move on by `momentum`. Otherwise the running averages are used, and
    no reduction is left.

    Costs per element are LayerNorm's, term by term; what is done once a channel is left out.
    """

    sign: ClassVar[str] = "batch norm"
    needs_module: ClassVar[bool] = True
    name: str
    eps: float
    momentum: float

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": (x[-1],), "bias": (x[-1],)}

    def buffers(self, x: Shape) -> dict[str, Shape]:
        return {"running_mean": (x[-1],), "running_var": (x[-1],), "num_batches_tracked": ()}

    def traits(self, *xs: Shape) -> Traits:
        return Traits(norm="batchnorm")

    def parts(self, x: Shape) -> tuple[Part, ...]:
        n, width = prod(x), 2 * x[-1]
        gradients = (
            Part("d_0", OpClass.NORMALIZATION, base.LAYERNORM_BACKWARD * n, 2 * n + width, n, wrt=0),
            Part("d_weight", OpClass.NORMALIZATION, base.LAYERNORM_WEIGHT * n, 2 * n, width, wrt="weight"),
        )
        return (
            Part("statistics", OpClass.NORMALIZATION, STATISTICS * n, n, width, training=True),
            Part(
                "normalize",
                OpClass.NORMALIZATION,
                (base.LAYERNORM_FORWARD - STATISTICS) * n,
                n + 2 * width,
                n,
                gradients,
            ),
        )

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        # running averages are read here; training moves them on, in the module of `leaf`
        known = [weights[name] for name in ("running_mean", "running_var", "weight", "bias")]
        return torch.nn.functional.batch_norm(x.flatten(0, -2), *known, eps=self.eps).view_as(x)

    def leaf(self, nn: Any, x: Shape) -> Any:
        return nn.TokenBatchNorm(x[-1], eps=self.eps, momentum=self.momentum)
