"""Notes: what autograd saves of a run, as its steps are followed with sizes in place of tensors.

Each method is a kind of step, and notes what the step's gradient is computed from: for a product the other
operand, for an exponential its result, for a sum nothing.
"""

from __future__ import annotations

from archcli.arith import Number, Shape, is_one, prod
from archcli.graph.kept import BOOL, FP32, Call, In, Kept, New, Out


class Noted:
    """A tensor of a run: what it is to the operation, whether a gradient flows to it, how wide it is.

    A weight is kept anyway, so that it is None to the operation.
    """

    __slots__ = ("grad", "kept", "width")

    def __init__(self, kept: Kept | None, width: Number, *, grad: bool) -> None:
        self.kept, self.width, self.grad = kept, width, grad


class Notes:
    """The tensors that the steps followed so far have saved."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self._saved: dict[int, Noted] = {}

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What was saved, each tensor once, in the order of the steps."""
        return tuple([x.kept for x in self._saved.values() if x.kept is not None])

    def given(self, which: int) -> Noted:
        """An input."""
        return Noted(In(which), self.call.widths[which], grad=self.call.grads[which])

    def by_head(self, which: int, shape: Shape) -> Noted:
        """Heads [B, T, H, d] in fp32 as [B H, T, d]: a copy, unless they lie so already."""
        x = self.given(which)
        in_place = x.width == FP32 and any(is_one(size) for size in shape[:3])
        return x if in_place else self.made(prod(shape), x)

    def in_rows(self, which: int, shape: Shape) -> Noted:
        """x [B, T, …, n] in fp32 as [T B …, n]: a copy, unless it lies so already."""
        x = self.given(which)
        in_place = x.width == FP32 and (is_one(shape[0]) or is_one(shape[1]))
        return x if in_place else self.made(prod(shape), x)

    def weight(self) -> Noted:
        """A weight of the operation."""
        return Noted(None, self.call.width, grad=self.call.trained)

    def made(self, elements: Number, *of: Noted, width: Number = FP32) -> Noted:
        """The result of a step that keeps nothing: a sum, or a copy."""
        return Noted(New(elements, width), width, grad=any(x.grad for x in of))

    def output(self, which: int, width: Number, *of: Noted) -> Noted:
        """The same, as an output of the operation."""
        return Noted(Out(which), width, grad=any(x.grad for x in of))

    def cast(self, x: Noted, elements: Number, width: Number = FP32) -> Noted:
        """A tensor in another width: itself, if it has that already."""
        return x if x.width == width else self.made(elements, x, width=width)

    def save(self, *xs: Noted) -> None:
        """Note that these are saved."""
        for x in xs:
            self._saved.setdefault(id(x), x)

    def times(self, a: Noted, b: Noted, elements: Number, width: Number = FP32) -> Noted:
        """The product of a and b, of numbers or of matrices."""
        if b.grad:
            self.save(a)
        if a.grad:
            self.save(b)
        return self.made(elements, a, b, width=width)

    def of_input(self, x: Noted, elements: Number, width: Number = FP32) -> Noted:
        """A function whose gradient is computed from its input: softplus, a square, a bound."""
        if x.grad:
            self.save(x)
        return self.made(elements, x, width=width)

    def of_result(self, x: Noted, elements: Number, width: Number = FP32) -> Noted:
        """A function whose gradient is computed from its result: exp, a root, a sigmoid."""
        out = self.made(elements, x, width=width)
        if out.grad:
            self.save(out)
        return out

    def scanned(self, decays: Noted, added: Noted, states: Number, tokens: Number) -> Noted:
        """All h_t = a_t h_(t-1) + b_t in so many elements, from zeros; each h is a tensor of its own."""
        after = self.made(states, decays, added)
        if decays.grad:
            self.save(Noted(New(states, FP32), FP32, grad=False))
        if after.grad and not is_one(tokens):
            self.save(decays)
        return after

    def divided(self, a: Noted, b: Noted, elements: Number, width: Number = FP32) -> Noted:
        """a / b."""
        if b.grad:
            self.save(a)
        if a.grad or b.grad:
            self.save(b)
        return self.made(elements, a, b, width=width)

    def mask(self, x: Noted, elements: Number) -> None:
        """Truth values that say where a tensor is let through, of which each step saves the same ones."""
        if x.grad:
            self.save(Noted(New(elements, BOOL), BOOL, grad=False))
