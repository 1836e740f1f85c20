"""BatchNormalize: each channel by its statistics over all tokens of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Shape, prod
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import FP32, Call, In, Kept, New
from archcli.ops import base

STATISTICS = 3
"""FLOPs per element for mean and variance: a sum, a square of the centred element, a sum again.

They are three of LayerNorm's seven; every pass does the other four.
"""


@dataclass(frozen=True, slots=True, eq=False)
class BatchNormalize(Op):
    """y = (x - mean) / sqrt(var + eps) * weight + bias for each channel, the last axis.

    Ioffe & Szegedy 2015, arXiv:1502.03167. In training mean and variance are those of the channel over all
    other axes, and their running averages move on by `momentum`. Otherwise the running averages are used, and
    no reduction is left.

    Costs per element are LayerNorm's, term by term; what is done once a channel is left out.
    """

    needs_module: ClassVar[bool] = True
    name: str
    eps: float
    momentum: float

    def shape(self, x: Shape) -> Shape:
        return x

    def weights(self, x: Shape) -> dict[str, Shape]:
        return {"weight": (x[-1],), "bias": (x[-1],)}

    def buffers(self, x: Shape) -> dict[str, Shape]:
        return {"running_mean": (x[-1],), "running_var": (x[-1],), "num_batches_tracked": ()}

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

    def kept(self, call: Call, x: Shape) -> tuple[Kept, ...]:
        statistic = New(x[-1], FP32 if call.on_cuda else call.widths[0])
        return (In(0), statistic, statistic)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        known = [weights[name] for name in ("running_mean", "running_var", "weight", "bias")]
        return torch.nn.functional.batch_norm(x.flatten(0, -2), *known, eps=self.eps).view_as(x)

    def leaf(self, nn: Any, x: Shape) -> Any:
        return nn.TokenBatchNorm(x[-1], eps=self.eps, momentum=self.momentum)
