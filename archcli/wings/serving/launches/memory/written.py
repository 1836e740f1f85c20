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
from archcli.modules.spec.trace import ADAPTERS
from archcli.ops import Attend, Linear, Lookup, Normalize, Rotate
from archcli.wings.serving.launches.dtypes import BY_NAME, DType
from archcli.wings.serving.launches.launching import launch
from archcli.wings.serving.launches.log import run_with

LORA, HEAD = ".lora_", "lm_head"
"""What names of operations of adapters have in them, and the name of the head."""


class Code(NamedTuple):
    """What a trainer's code does otherwise than archcli's modules.

    steps: RMSNorm is a few functions of torch, and not one kernel.
    shares: attention leaves it to torch that heads share keys.
    autocast: products and attention compute in this type; empty without autocast.
    packed: matrices are packed in 4 bits by bitsandbytes, which computes in this type; empty for none.
    rest: the type of frozen weights that are not packed; empty for the model's.
    adapters: the type of adapters; empty for the model's.
    """

    steps: bool = False
    shares: bool = False
    autocast: str = ""
    packed: str = ""
    rest: str = ""
    adapters: str = ""

    def __call__(self, op: Op, group: str) -> Op:
        """The operation as this code runs it; itself where nothing differs."""
        if self == ARCHCLI or op.is_view or op.is_weight:
            return op
        of_adapter = group == ADAPTERS or LORA in op.name
        form = self._of_adapter(op) if of_adapter else self._of_kind(type(op), op)
        return op if form == Form() else Written(op, form)

    def _of_adapter(self, op: Op) -> Form:
        # peft casts what enters an adapter and what it adds; beside packed weights autocast does
        casts = {"lora_A": FIRST, "lora_add": SECOND}.get(op.name.rpartition(".")[2], "")
        return Form(self.autocast, self.adapters, casts="" if self.autocast and self.packed else casts)

    def _of_kind(self, kind: type[Op], op: Op) -> Form:
        form = Form(self.autocast)
        if kind is Linear and op.name != HEAD and self.packed:
            return form._replace(packed=self.packed)
        if kind in WEIGHTED:
            in_steps = self.steps and op.traits().norm == "rmsnorm"
            return form._replace(weights=self.rest, steps=in_steps)
        if kind is Rotate and self.steps and self.autocast:
            return form._replace(casts=TO_SECOND)
        return form._replace(shares=self.shares and kind is Attend)


ARCHCLI = Code()
"""archcli's modules as they are."""
WEIGHTED = (Linear, Lookup, Normalize)
"""Operations whose weights may lie in another type."""
FIRST, SECOND, TO_SECOND = "first", "second", "to second"
"""What a form casts: the first input to the weight's type, the second to the first's, the first to it."""


class Form(NamedTuple):
    """How one operation is written.

    weights: their type; empty for the model's. packed: the type in which packed weights are multiplied.
    shares: attention leaves it to torch that heads share keys.
    casts: what is cast: the `first` input to the weight's type, or `to second`; the `second` to the first.
    """

    autocast: str = ""
    weights: str = ""
    packed: str = ""
    casts: str = ""
    steps: bool = False
    shares: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Written(Op):
    """An operation in the form of a trainer's code."""

    follows_run: ClassVar[bool] = True
    op: Op
    form: Form

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

    def _run(self, run: Callable[..., Any], torch: Any, weights: dict[str, Any], *xs: Any) -> Any:
        form, op = self.form, self.op
        if form.packed:
            return packed_product(xs[0], op.shape(xs[0].shape)[-1], weights.get("bias"), BY_NAME[form.packed])
        if form.steps:
            return norm_in_steps(xs[0], op, weights)
        if form.casts == FIRST:
            xs = (xs[0].to(weights["weight"].dtype), *xs[1:])
        elif form.casts == TO_SECOND:
            xs = (xs[0].to(xs[1].dtype), *xs[1:])
        elif form.casts == SECOND:
            xs = (xs[0], xs[1].to(xs[0].dtype))
        groups = xs[0].shape[2] // xs[1].shape[2] if form.shares else 1
        with run_with(BY_NAME.get(form.autocast), groups):
            return run(torch, weights, *xs)


def weights_type(op: Op) -> DType | None:
    """The type of an operation's weights; None for the model's."""
    return BY_NAME.get(op.form.weights) if isinstance(op, Written) else None


def packed_product(x: Any, out: int, bias: Any, computed: DType) -> Any:
    """Linear4bit of bitsandbytes: x in the type that computes, a product, and back; it keeps no x.

    Its backward multiplies with the unpacked matrix (MatMul4Bit).
    """
    low = x.to(computed)

    def backward(g: Any) -> tuple[Any]:
        return (launch("mm", [g], low.shape, low.dtype),)

    inputs = [low] if bias is None else [low, bias.detach()]
    return launch("gemm_4bit", inputs, (*x.shape[:-1], out), computed, backward=backward).to(x.dtype)


def norm_in_steps(x: Any, op: Any, weights: dict[str, Any]) -> Any:
    """RMSNorm of transformers: in fp32 up to the gain, which is multiplied in the type of x."""
    wide = x.float()
    normalized = wide * (wide.pow(2).mean(-1, keepdim=True) + op.eps).rsqrt()
    if not op.weight:
        return normalized.to(x.dtype)
    if op.offset:  # Gemma multiplies in fp32
        return (normalized * (weights["weight"].float() + op.offset)).to(x.dtype)
    return weights["weight"] * normalized.to(x.dtype)
