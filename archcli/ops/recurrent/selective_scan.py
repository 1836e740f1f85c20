"""SelectiveScan: the state space of Mamba-1 (S6), whose decays differ by channel and state.

B batch, T new tokens, d channels, N state, H heads of P channels where there are several.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from archcli.arith import Number, Shape, minimum, prod
from archcli.graph import Op, OpClass, Part, State, StateKind, Workspace
from archcli.ops.base import contraction, elementwise
from archcli.ops.recurrent.chunks import CHUNK, Form, chunk_count, linear_scan, steps


@dataclass(frozen=True, slots=True, eq=False)
class SelectiveScan(Op):
    """h_t = exp(-dt_t e^A_log) h_(t-1) + dt_t x_t B_t^T, y_t = h_t C_t + D x_t, with dt = softplus(dt).

    Inputs x and dt [B, T, d], B and C [B, T, N], then the cached h [B, d, N] if there is one. Outputs y
    [B, T, d], and with `keep` the new h. Weights A_log [d, N] and D [d]. With heads, x and dt are
    [B, T, H, P], B and C [B, T, H, N], h [B, H, P, N], A_log [H, P, N] and D [H, P].

    Mamba, arXiv:2312.00752 section 3. The chunked form reads every input once and keeps h in fast memory; the
    recurrent form reads and writes h with every token.
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "selective scan"
    component: ClassVar[str] = "recurrence"
    name: str
    form: Form
    keep: bool

    def shape(self, x: Shape, dt: Shape, b: Shape, c: Shape, *state: Shape) -> Any:
        return (x, (x[0], *x[2:], b[-1])) if self.keep else (x,)

    def weights(self, x: Shape, dt: Shape, b: Shape, c: Shape, *state: Shape) -> dict[str, Shape]:
        return {"A_log": (*x[2:], b[-1]), "D": x[2:]}

    def initial(self, weight: str) -> float | None:
        return 1.0 if weight == "D" else None

    def states(self, x: Shape, dt: Shape, b: Shape, c: Shape, *state: Shape) -> tuple[State, ...]:
        return (State(x[0] * prod(x[2:]) * b[-1], StateKind.FIXED),) if self.keep else ()

    def parts(self, x: Shape, dt: Shape, b: Shape, c: Shape, *state: Shape) -> tuple[Part, ...]:
        # x[2:] is [d], or [H, P] with heads
        n, shared, width = prod(x), prod(b), prod(x[2:])
        sums, rates = n * b[-1], width * b[-1]
        stepwise = self.form == "recurrent"
        # states that are written to memory: all of them, or those at the ends of chunks
        moved = sums if stepwise else x[0] * chunk_count(x[1], CHUNK) * rates
        update = contraction("update", 2 * sums, [(n, (0, 1)), (shared, 2)], moved)
        readout = contraction("readout", 2 * sums, [(moved, (0, 1, 2)), (shared, 3)], n)
        softplus = elementwise("softplus", n, saved=1)
        steps_of = tuple(replace(back, name="d_1", wrt=1) for back in softplus.backward)
        return (
            replace(softplus, written=0, backward=steps_of),
            _scaled(n),
            replace(update, read=shared, written=0),
            *_decayed(n, sums, rates, moved if stepwise else x[0] * rates * len(state), moved),
            replace(readout, read=shared, written=0),
            _skipped(n, width),
        )

    def workspace(self, width: int, x: Shape, dt: Shape, b: Shape, c: Shape, *state: Shape) -> Workspace:
        """Bytes of the states of a chunk, in fp32 at least."""
        wide = max(width, 4)
        of_token = wide * x[0] * prod(x[2:]) * b[-1]
        # copies in fp32 of x, dt, their product and y; of a chunk decays, inputs and states, with temporaries
        chunk, copies = minimum(x[1], CHUNK) * of_token, 4 * wide * prod(x)
        return Workspace(copies + 5 * chunk, copies + 6 * chunk)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, dt: Any, b: Any, c: Any, *state: Any) -> Any:
        # rows are tokens, then sequences, then heads: products read a chunk of them where it lies
        wide = torch.promote_types(x.dtype, torch.float32)
        rates = -weights["A_log"].to(wide).exp()
        h = state[0].to(wide) if state else x.new_zeros((x.shape[0], *rates.shape), dtype=wide)
        sizes = (-1, *h.shape[:-2])
        inputs, dt, b, c = (_rows(torch, it) for it in (x, dt, b, c))
        dt = torch.nn.functional.softplus(dt)
        chunk = 1 if steps(self.form, x.shape[1], started=bool(state)) else CHUNK
        pieces = (it.split(chunk * prod(sizes[1:]), 0) for it in (dt, dt * inputs, b, c))
        out = []
        for step, update, key, query in zip(*pieces, strict=True):
            decay = (step.unflatten(0, sizes).unsqueeze(-1) * rates).exp()
            added = torch.bmm(update.unsqueeze(-1), key.unsqueeze(-2)).unflatten(0, sizes)
            states, h = linear_scan(torch, decay, added, h, axis=0)
            out.append(torch.bmm(states.flatten(0, -3), query.unsqueeze(-1)).squeeze(-1))
        inputs = inputs.unflatten(0, sizes)
        y = torch.cat(out, 0).view(inputs.shape) + weights["D"].to(wide) * inputs
        y = y.transpose(0, 1).to(x.dtype, memory_format=torch.contiguous_format).contiguous()
        return (y, h) if self.keep else (y,)


def _rows(torch: Any, x: Any) -> Any:
    """x [B, T, …, n] in float32 at least as [T B …, n]: one copy, where a view cannot do."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return x.transpose(0, 1).to(wide, memory_format=torch.contiguous_format).flatten(0, -2)


def _scaled(n: Number) -> Part:
    """dt x, of n elements."""
    backward = tuple(Part(f"d_{i}", OpClass.ELEMENTWISE, n, 2 * n, n, wrt=i) for i in (0, 1))
    return Part("scale", OpClass.ELEMENTWISE, n, n, 0, backward)


def _decayed(n: Number, sums: Number, rates: Number, read: Number, written: Number) -> tuple[Part, ...]:
    """The rates e^A_log, dt times a rate, exp, and the state times that: 3 for each element of all states.

    Backward: the state's gradient decays and is added to what comes; that of a decay is multiplied by state
    and decay, then by the rate and summed (dt), or by dt and summed (A_log).
    """
    to_state = Part("d_state", OpClass.ELEMENTWISE, 2 * sums, 2 * written, written, wrt=(0, 1, 2))
    to_step = Part("d_1", OpClass.NORMALIZATION, 4 * sums, 2 * written + rates, n, wrt=1)
    to_rate = Part("d_A_log", OpClass.NORMALIZATION, 2 * sums + rates, n + rates, rates, wrt="A_log")
    return (
        Part("decay", OpClass.ELEMENTWISE, 2 * sums + rates, rates, 0, (to_step, to_rate)),
        Part("advance", OpClass.ELEMENTWISE, sums, read, written, (to_state,), scans=True),
    )


def _skipped(n: Number, width: Number) -> Part:
    """D x, added to the readout."""
    to_x = Part("d_0", OpClass.ELEMENTWISE, n, n + width, n, wrt=0)
    to_weight = Part("d_D", OpClass.NORMALIZATION, 2 * n, 2 * n, width, wrt="D")
    return Part("skip", OpClass.ELEMENTWISE, 2 * n, width, n, (to_x, to_weight))
