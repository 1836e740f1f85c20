"""Operations as a trainer's code runs them: in other steps, and with weights in another number type.

A trainer runs the same forward. What it holds differs where its modules take other steps (norms in Python),
where weights are not in the type that is computed in (norms and tables in fp32 beside 4-bit matrices), and
under torch.autocast, which casts the inputs of products. A tape reads the memory of the written operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from archcli.arith import Shape
from archcli.graph import Op
from archcli.graph.part import READ_OFF_RUN, Workspace
from archcli.modules.adapters.dora import MAGNITUDE
from archcli.modules.spec.trace import ADAPTERS
from archcli.ops import Attend, Linear, Lookup, Normalize, Rotate
from archcli.wings.serving.launches.dtypes import BY_NAME, DType
from archcli.wings.serving.launches.launching import launch, save_for_backward
from archcli.wings.serving.launches.log import run_with

LORA, HEAD = ".lora_", "lm_head"
"""What names of operations of adapters have in them, and the name of the head."""
PROJECTIONS = {"q_proj": "q", "k_proj": "k", "v_proj": "v"}
"""Targets of adapters, by the names of the projections of attention that one product may make."""


class Code(NamedTuple):
    """What a trainer's code does otherwise than archcli's modules.

    steps: RMSNorm is a few functions of torch, and not one kernel.
    shares: attention leaves it to torch that heads share keys.
    autocast: products and attention compute in this type; empty without autocast.
    packed: matrices are packed in 4 bits by bitsandbytes, which computes in this type; empty for none.
    rest: the type of frozen weights that are not packed; empty for the model's.
    adapters: the type of adapters; empty for the model's.
    keeps: products with packed matrices keep their inputs.
    fused: queries, keys and values are views of what one product makes.
    padded: what an adapter of one of the three makes is kept, to be padded with zeros for the others.
    later: of the three, those whose adapter reads what an earlier one's has dropped.
    """

    steps: bool = False
    shares: bool = False
    autocast: str = ""
    packed: str = ""
    rest: str = ""
    adapters: str = ""
    keeps: bool = False
    fused: bool = False
    padded: bool = False
    later: tuple[str, ...] = ()

    def __call__(self, op: Op, group: str) -> Op:
        """The operation as this code runs it; itself where nothing differs."""
        if self == ARCHCLI or op.is_view or op.is_weight:
            return op
        of_adapter = group == ADAPTERS or LORA in op.name
        form = self._of_adapter(op) if of_adapter else self._of_kind(type(op), op)
        return op if form == Form() else Written(op, form)

    def _of_adapter(self, op: Op) -> Form:
        # peft casts what enters an adapter and what it adds; beside packed weights autocast does
        projection, _, step = op.name.rpartition(".")
        casts = {"lora_A": FIRST, "lora_add": SECOND}.get(step, "") if self.adapters else ""
        form = Form(self.autocast, self.adapters, casts="" if self.autocast and self.packed else casts)
        if step == MAGNITUDE:
            return form._replace(steps=self.steps)
        if projection in self.later and step in {"lora_dropout", "lora_A"}:
            return form._replace(again=True)
        return form._replace(keeps=self.padded and projection in PROJECTIONS and step == "lora_add")

    def _of_kind(self, kind: type[Op], op: Op) -> Form:
        form = Form(self.autocast)
        if kind is Linear and op.name != HEAD and self.packed:
            turned = self.fused and op.name == OUTPUT
            return form._replace(packed=self.packed, keeps=self.keeps, casts=TURNED if turned else "")
        if kind in WEIGHTED:
            in_steps = self.steps and op.traits().norm == "rmsnorm"
            return form._replace(weights=self.rest, steps=in_steps)
        if kind is Rotate and self.steps and self.autocast:
            return form._replace(casts=TO_SECOND)
        is_attention = kind is Attend
        return form._replace(shares=self.shares and is_attention, keeps=self.fused and is_attention)


ARCHCLI = Code()
"""archcli's modules as they are."""
WEIGHTED = (Linear, Lookup, Normalize)
"""Operations whose weights may lie in another type."""
FIRST, SECOND, TO_SECOND, TURNED = "first", "second", "to second", "turned"
"""What a form casts: the first input to the weight's type, the second to the first's, the first to it."""
OUTPUT = "o_proj"
"""The name of the projection that reads what attention makes."""


class Form(NamedTuple):
    """How one operation is written.

    weights: their type; empty for the model's. packed: the type in which packed weights are multiplied.
    shares: attention leaves it to torch that heads share keys.
    casts: what is cast: the `first` input to the weight's type, or `to second`; the `second` to the first.
        `turned`: the first lies head by head, and is copied to lie token by token.
    keeps: the backward keeps what it does not read: a packed product its input, attention the queries and
        keys of the product that values are a view of, the sum of an adapter what it adds.
    again: it reads what another operation has made and keeps.
    """

    autocast: str = ""
    weights: str = ""
    packed: str = ""
    casts: str = ""
    steps: bool = False
    shares: bool = False
    keeps: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Written(Op):
    """An operation in the form of a trainer's code."""

    follows_run: ClassVar[bool] = True
    op: Op
    form: Form

    # as the operation is; routed experts run a grouped one as one, which torch.autocast leaves as it is
    @property
    def grouped(self) -> bool:  # type: ignore[override]
        """Whether the operation runs all experts of a mixture at once."""
        return self.op.grouped

    @property
    def passes_gradient(self) -> bool:  # type: ignore[override]
        """Whether the operation's gradient is handed on as it is."""
        return self.op.passes_gradient

    @property
    def sums_bias(self) -> bool:  # type: ignore[override]
        """Whether the operation's backward sums up a bias."""
        return self.op.sums_bias

    @property
    def name(self) -> str:  # type: ignore[override]
        """The operation's."""
        return self.op.name

    def shape(self, *xs: Shape) -> Any:
        return self.op.shape(*xs)

    def weights(self, *xs: Shape) -> dict[str, Shape]:
        return self.op.weights(*xs)

    def buffers(self, *xs: Shape) -> dict[str, Shape]:
        return self.op.buffers(*xs)

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        return self.op.trained(grads, *xs)

    @property
    def needs_module(self) -> bool:  # type: ignore[override]
        """The operation's, unless it is one that runs no more."""
        return self.op.needs_module and not self.form.again

    def leaf(self, nn: Any, *xs: Shape) -> Any:
        return self.op.leaf(nn, *xs)

    def parts(self, *xs: Shape) -> Any:
        return self.op.parts(*xs)

    def space(self, call: Any, *xs: Shape) -> Workspace:
        return READ_OFF_RUN

    def in_training(self) -> Op:
        return Written(self.op.in_training(), self.form)

    def run(self, torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        return self._run(self.op.run, torch, weights, *xs)

    def run_fused(self, torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        return self._run(self.op.run_fused, torch, weights, *xs)

    def run_flex(self, torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        return self._run(self.op.run_flex, torch, weights, *xs)

    def _run(self, run: Callable[..., Any], torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        form, op = self.form, self.op
        if form.casts == TURNED:
            xs = (launch("copy_", [xs[0]], xs[0].shape, backward=lambda g: (g,)), *xs[1:])
        if form.packed:
            out, computed = op.shape(xs[0].shape)[-1], BY_NAME[form.packed]
            return packed_product(xs[0], out, weights.get("bias"), computed, keeps=form.keeps)
        if form.again and weights:
            return product_again(xs[0], weights["weight"])
        if form.steps:
            in_steps = norm_in_steps if op.traits().norm else dora_in_steps
            return in_steps(torch, op, weights, *xs, autocast=BY_NAME.get(form.autocast))
        if form.casts == FIRST:
            xs = (xs[0].to(weights["weight"].dtype), *xs[1:])
        elif form.casts == TO_SECOND:
            xs = (xs[0].to(xs[1].dtype), *xs[1:])
        elif form.casts == SECOND:
            xs = (xs[0], xs[1].to(xs[0].dtype))
        groups = xs[0].shape[2] // xs[1].shape[2] if form.shares else 1
        with run_with(BY_NAME.get(form.autocast), groups):
            out = run(torch, weights, *xs)
        if form.keeps:
            save_for_backward(out, *_saved_inputs(xs))
        return out


def weights_type(op: Op) -> DType | None:
    """The type of an operation's weights; None for the model's."""
    return BY_NAME.get(op.form.weights) if isinstance(op, Written) else None


def _saved_inputs(xs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of attention what queries and keys were before they were rotated; of a sum what is added."""
    if len(xs) == BINARY:
        return xs[1:]
    return tuple(launch("fused", [], x.shape, x.dtype) for x in xs[:2])


BINARY = 2
"""Inputs of a sum."""


def product_again(x: Any, weight: Any) -> Any:
    """A product with a part of the rows of a matrix, of which another part has kept x."""

    def backward(g: Any) -> tuple[Any, Any]:
        return launch("mm", [g], x.shape, x.dtype), launch("mm", [g], weight.shape, weight.dtype)

    return launch("mm", [x, weight], (*x.shape[:-1], weight.shape[0]), x.dtype, backward=backward)


def packed_product(x: Any, out: int, bias: Any, computed: DType, *, keeps: bool = False) -> Any:
    """Linear4bit of bitsandbytes: x in the type that computes, a product, and back.

    From 0.43 on it keeps no x. Its backward multiplies with the unpacked matrix (MatMul4Bit).
    """
    low = x.to(computed)

    def backward(g: Any) -> tuple[Any]:
        return (launch("mm", [g], low.shape, low.dtype),)

    inputs = [low] if bias is None else [low, bias.detach()]
    product = launch("gemm_4bit", inputs, (*x.shape[:-1], out), computed, backward=backward)
    if keeps:
        save_for_backward(product, low)
    return product.to(x.dtype)


def norm_in_steps(_: Any, op: Any, weights: dict[str, Any], x: Any, **__: Any) -> Any:
    """RMSNorm of transformers: in fp32 up to the gain, which is multiplied in the type of x."""
    wide = x.float()
    normalized = wide * (wide.pow(2).mean(-1, keepdim=True) + op.eps).rsqrt()
    if not op.weight:
        return normalized.to(x.dtype)
    if op.offset:  # Gemma multiplies in fp32
        return (normalized * (weights["weight"].float() + op.offset)).to(x.dtype)
    return weights["weight"] * normalized.to(x.dtype)


def dora_in_steps(torch: Any, op: Any, weights: dict[str, Any], y: Any, *more: Any, autocast: Any) -> Any:
    """DoRA of peft: what it adds, in the type of adapters, and the sum in that of y."""
    return (y + _of_dora(torch, op, weights["weight"], autocast, y, *more)).to(y.dtype)


def _of_dora(torch: Any, op: Any, m: Any, autocast: Any, y: Any, low: Any, *more: Any) -> Any:
    """DoraLinearLayer.forward of peft: B A is made of a unit matrix.

    It lives on, as x and W do in the type of adapters; without autocast the backward keeps that x.
    """
    w, a, b, *bias = more
    (out, width), wide = w.shape, w.to(a.dtype)
    _x = launch("empty", [], (*y.shape[:-1], width), a.dtype) if autocast else None
    unit = launch("eye", [], (width, width), a.dtype).to(autocast or a.dtype)
    narrow = launch("mm", [unit, a], (width, a.shape[0]), unit.dtype)
    delta = launch("mm", [narrow, b], (width, out), unit.dtype).to(a.dtype).T
    scale = m / torch.linalg.norm(wide + op.factor * delta, dim=1)
    return (scale - 1) * (y - bias[0] if bias else y) + scale * low * op.factor
