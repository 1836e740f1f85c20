"""ShardTape: what the ranks of a plan exchange, between the operations of a model's forward.

No module knows of ranks. A rank's share of a model has smaller fields; its forward runs on this tape around
another, which adds the operations that exchange tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from archcli.arith import Number, ceil_div
from archcli.graph import Experts, Op, Tape, Tensor
from archcli.modules.adapters.adapted import Adapted, on_tape, unadapted
from archcli.modules.ends.embedding import Embedding, Head
from archcli.modules.spec.base import Module
from archcli.modules.spec.degrees import Degrees
from archcli.modules.tensor_parallel.layouts import SUMMED, WITHIN, Layout, layout_of
from archcli.ops import (
    AllGather,
    AllReduce,
    AllToAll,
    BesideOthers,
    Combine,
    CombineReal,
    Dispatch,
    Gather,
    GatherLast,
    KeepFirst,
    KeepLast,
    LogSumExp,
    Lookup,
    OwnExperts,
    OwnPart,
    ReduceScatter,
    SumGradient,
)

SEQUENCES, TOKENS = 0, 1
"""The axes of sequences and of tokens, [B, T, D]."""
TABLES = {"tokens", "source", "embedding"}
"""The lookups in tables that are split by words, by the names of their ops."""
LM_HEAD, FFN = "lm_head", "ffn"
HEADS = {LM_HEAD, "logits"}
"""The projections whose outputs are split by words."""


@dataclass(frozen=True, slots=True)
class ShardTape:
    """A stateless tape around another.

    `layout` is that of the module that runs, `ranks` the number of those that share it. `scattered`: of the
    tensors on this tape, those of tokens have 1/tp of the tokens (sequence parallelism).
    """

    inner: Tape
    degrees: Degrees
    layout: Layout = WITHIN
    scattered: bool = False
    ranks: int = 1

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Emit the op, with the collectives that it needs before and behind it."""
        if self.scattered and isinstance(op, KeepLast | KeepFirst):
            # one rank has the token that is kept, and all of them read it
            whole = self._gather(f"{op.name}_gather", xs[0], sums=False)
            return self._within().emit(op, whole, group=group, trained=trained)
        y = self.inner.emit(op, *self._read(op, xs), group=group, trained=trained)
        return on_tape(self, self._written(op, xs, y))

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The rank's part of an op's weight."""
        weight: Tensor = on_tape(self, self.inner.weight(op, *xs, group=group, trained=trained, which=which))
        return weight

    def declaring(self) -> ShardTape | None:
        """A tape that declares weights."""
        inner = self.inner.declaring()
        return None if inner is None else replace(self, inner=inner)

    def unshared(self) -> ShardTape:
        """A sharding tape around the tape of one occurrence's own weights."""
        return replace(self, inner=self.inner.unshared())

    def occurrences(
        self, n_layers: Number, period: int, *, apart: bool = False
    ) -> Iterable[tuple[int, Number]]:
        """The occurrences of the tape below."""
        return self.inner.occurrences(n_layers, period, apart=apart)

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Call a child; one that is split reads all tokens, and its partial sums are added up."""
        if "experts" in options:
            local = self._local(options["experts"])
            return self._called(self._within(), module, name, *args, **{**options, "experts": local})
        if isinstance(unadapted(module), Embedding):
            return self._embedded(module, name, *args, **options)
        plain = unadapted(module)
        layout = layout_of(plain)
        # a block or a norm is not split itself; its children are looked at one by one
        if layout is None:
            return self._called(replace(self, layout=WITHIN), module, name, *args, **options)
        if plain.family == FFN and self.ranks < self.degrees.of_networks:
            return self._of_groups(layout, module, name, *args, **options)
        x, *rest = args
        entering = self._entering(name, x, sums=layout.enters)
        y = self._called(replace(self._within(), layout=layout), module, name, entering, *rest, **options)
        if self.layout.leaves:  # inside of a mixture: a term of the sum that leaves the mixture
            return y
        return self._first(y, lambda out: self._leaving(name, out, sums=layout.leaves))

    def _of_groups(
        self, layout: Layout, module: Module, name: str, x: Tensor, *rest: Any, **options: Any
    ) -> Any:
        """Call a network shared by all groups: gather all tokens, then give each group its share."""
        groups, stride = self.degrees.groups, self.degrees.tp
        gather = AllGather(f"{name}_gather", groups, SEQUENCES, stride=stride)
        tape = replace(self._within(), layout=layout, ranks=self.degrees.of_networks)
        y = self._called(tape, module, name, on_tape(self, gather(self._inner(x))), *rest, **options)
        if not layout.leaves:
            part = OwnPart(f"{name}_part", groups, SEQUENCES, stride=stride)
            return self._first(y, lambda out: part(self._inner(out)))
        scatter = ReduceScatter(f"{name}_reduce_scatter", groups, SEQUENCES, stride=stride)
        scattered = self._first(y, lambda out: scatter(self._inner(out)))
        return scattered if self.ranks == 1 else self._first(scattered, lambda out: self._summed(name, out))

    def inline(self, module: Module, group: str, *args: Any, **options: Any) -> Any:
        """Emit a module's ops on this tape; a head reads all tokens."""
        if self.scattered and module.group == LM_HEAD:
            x, *rest = args
            # a linear head reads what is gathered; behind a transform, each rank's gradients are summed later
            sums = isinstance(unadapted(module), Head)
            whole = self._gather(f"{options['name']}_gather", x, sums=sums)
            tape = replace(self._within(), layout=SUMMED if sums else WITHIN)
            return tape.inline(module, group, whole, *rest, **options)
        child: Any = Adapted(module, lambda tape: replace(self, inner=tape))
        return on_tape(self, self.inner.inline(child, group, *on_tape(self.inner, args), **options))

    def _called(self, tape: ShardTape, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """The result of a child that runs on this kind of tape, around the child's own."""
        child: Any = Adapted(module, lambda below: replace(tape, inner=below))
        return on_tape(self, self.inner.call(child, name, *on_tape(self.inner, args), **options))

    def _within(self) -> ShardTape:
        """A tape of the inside of a split module: of all tokens, with nothing to exchange."""
        return replace(self, layout=WITHIN, scattered=False)

    def _embedded(self, module: Any, name: str, *args: Any, **options: Any) -> Any:
        """Vectors of the rank's tokens, and the table."""
        # one reduce-scatter adds up the ranks' words and leaves each rank its tokens
        early = self.scattered and _adds_nothing(unadapted(module))
        y = self._called(replace(self, scattered=early), module, name, *args, **options)
        if early or not self.scattered:
            return y
        return self._first(y, lambda x: self._part(f"{name}_part", x))

    def _local(self, experts: Experts) -> Experts:
        """The rank's share of the experts, copies among them; all ranks see as many tokens as before."""
        ep = self.degrees.ep
        return experts if ep == 1 else experts._replace(n_experts=ceil_div(experts.n_experts, ep), ranks=ep)

    def _read(self, op: Op, xs: tuple[Tensor, ...]) -> list[Tensor]:
        """The op's inputs, after the exchanges before it."""
        read, ep = list(xs), self.degrees.ep
        summed = self.layout is SUMMED
        # of a gathered head the gather has summed the gradients: not a second time
        index = 0 if op.name in HEADS and not summed else self.layout.reads.get(op.name)
        if index is not None and self.ranks > 1:
            read[index] = SumGradient(f"{op.name}_copy", self.ranks)(self._inner(read[index]))
        if ep > 1 and isinstance(op, Combine | CombineReal):
            back = (
                AllToAll(f"{op.name}_all_to_all", ep, visits=xs[-2].shape[-1])
                if self.degrees.sends_tokens
                else BesideOthers(f"{op.name}_others", ep)
            )
            read[0] = back(self._inner(read[0]))
        return read

    def _written(self, op: Op, xs: tuple[Tensor, ...], y: Any) -> Any:
        """The op's output, after the exchanges behind it."""
        tp, ep = self.degrees.tp, self.degrees.ep
        if ep > 1 and isinstance(op, Dispatch):
            # ranks that have the same tokens need no others: each takes those of its experts
            split = (
                AllToAll(f"{op.name}_all_to_all", ep, tp, xs[-1].shape[-1], enters=True)
                if self.degrees.sends_tokens
                else OwnExperts(f"{op.name}_own", ep)
            )
            return self._first(y, lambda x: split(self._inner(x)))
        by_words = isinstance(op, LogSumExp | GatherLast) or (
            isinstance(op, Lookup | Gather) and op.name in TABLES
        )
        if self.ranks == 1 or not (by_words or op.name in self.layout.writes):
            return y
        return self._summed(op.name, y)

    def _summed(self, name: str, x: Tensor) -> Tensor:
        """The sum over the ranks, of all tokens or of the rank's."""
        op = (
            ReduceScatter(f"{name}_reduce_scatter", self.ranks, TOKENS)
            if self.scattered
            else AllReduce(f"{name}_all_reduce", self.ranks)
        )
        total: Tensor = on_tape(self, op(self._inner(x)))
        return total

    def _entering(self, name: str, x: Tensor, *, sums: bool) -> Tensor:
        """What a split module reads: all tokens, whose gradients are summed over the ranks if `sums`."""
        if self.ranks == 1:
            return x
        if self.scattered:
            return self._gather(f"{name}_gather", x, sums=sums)
        return SumGradient(f"{name}_copy", self.ranks)(self._inner(x)) if sums else x

    def _leaving(self, name: str, y: Tensor, *, sums: bool) -> Tensor:
        """What a split module returns: partial sums added up, or what each rank has already."""
        if self.ranks == 1:
            return y
        if sums:
            return self._summed(name, y)
        return self._part(f"{name}_part", y) if self.scattered else y

    def _gather(self, name: str, x: Tensor, *, sums: bool) -> Tensor:
        whole: Tensor = AllGather(name, self.degrees.tp, TOKENS, sums)(self._inner(x))
        return on_tape(self._within(), whole)

    def _part(self, name: str, x: Tensor) -> Tensor:
        part: Tensor = OwnPart(name, self.degrees.tp, TOKENS, gathers=True)(self._inner(x))
        return on_tape(self, part)

    def _inner(self, x: Tensor) -> Tensor:
        return Tensor(self.inner, x.value)

    def _first(self, y: Any, change: Callable[[Tensor], Tensor]) -> Any:
        """The result of a module with its first tensor changed."""
        if isinstance(y, Tensor):
            return on_tape(self, change(y))
        return on_tape(self, (change(y[0]), *y[1:]))


def _adds_nothing(embedding: Embedding) -> bool:
    """Whether nothing is added to the tokens' vectors, so that they can be scattered as they are summed."""
    return embedding.position.acts_on != "embedding" and not embedding.adds_tables
