"""Low-rank adapters: a small trained product beside a frozen projection.

No module knows of its adapters. An adapted model runs on an `AdaptTape`, which passes every operation on to
the tape below it with frozen weights, and adds the product behind the projections that `targets` names.

B batch, T new tokens, r rank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from archcli.arith import Number, is_whole
from archcli.errors import ArchError
from archcli.graph import Op, Row, Tape, Tensor
from archcli.graph.count_tape import Abstract
from archcli.modules.adapters.adapted import Adapted, on_tape
from archcli.modules.adapters.dora import check_rows, scaled
from archcli.modules.adapters.rule import AdapterRule
from archcli.modules.adapters.saved import can_be_saved, copy_of
from archcli.modules.networks.activation import dropped
from archcli.modules.spec.base import Conflict, Module, Positive, Share, Size, Spec
from archcli.modules.spec.trace import ADAPTERS, outline
from archcli.ops import Add, BlockDiagonal, Einsum, Gather, Linear, Lookup, MergeHeads, Scale, SplitHeads

IN_LAYER = re.compile(r"\blayers\.[^.]+\.")
EVERY = "all_linear"
USE = "shared"
"""The step of the paths within a block that a layer calls, and other layers too."""
HEAD, ROUTER, TABLE = "lm_head", "router", "embedding"
# as PEFT's all-linear leaves the output layer out; a head of classes or clusters is one too
NOT_IN_EVERY = re.compile(rf"{HEAD}(_classes|_tail_\d+_(down|up))?|{ROUTER}")
"""Projections that `all_linear` leaves out, as it does all tables."""
TABLES = {"tokens": TABLE, "source": TABLE}
"""The token tables, by the names of their ops; others go by those: positions, token_types."""


class LoRA(Spec):
    """y = W x + (alpha / rank) B A x, with W frozen and A [rank, in], B [out, rank] trained.

    B starts as zero. Hu et al. 2021, arXiv:2106.09685 section 4.1.

    `targets` names the projections that are adapted, in the words of this file's other keys: q, k, v, o,
    gate, up, down, of MLA q_a, q_b, kv_a, kv_b; router, lm_head, embedding, positions; all_linear is every
    projection but routers and the head. The last steps of a path name fewer of them: attention.q, shared.up.
    Matrices that a class holds in one share one A: q+k+v. The paper adapts q and v. `rank` is the width
    between A and B, 8 as in PEFT. `alpha` left out is the rank, so that the product counts once. `dropout`
    zeroes that share of what A reads in training. `rules` give some projections another rank, in all layers
    or in some.
    `saved` names projections, tables and norms that are trained whole, as copies beside frozen ones: PEFT's
    modules_to_save. `trained` names modules whose own weights are trained, alone where there are no targets:
    layers.31, final_norm, lm_head. All other weights are frozen. With `dora` each output of
    W + (alpha / rank) B A is divided by the norm of its row and multiplied by a trained magnitude, which
    starts as the norm of W's (Liu et al. 2024, arXiv:2402.09353).
    """

    rank: Size = 8
    alpha: Positive | None = None
    targets: tuple[str, ...] = ("q", "v")
    dropout: Share = 0.0
    rules: tuple[AdapterRule, ...] = ()
    saved: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()
    dora: bool = False

    @property
    def factor(self) -> Number:
        """alpha / rank, by which the adapter's output is multiplied."""
        return _factor(self.rank, self.alpha)

    @property
    def adapts(self) -> bool:
        """Whether it adds weights to the model, as it does not where it names trained modules alone."""
        return bool(self.targets or self.saved)

    @property
    def tells_layers_apart(self) -> bool:
        """Whether a projection may have another adapter in one layer than in the next."""
        by_layer = any(name.startswith("layers.") or ".layers." in name for name in self.trained)
        return by_layer or any(rule.layers is not None for rule in self.rules)

    def adapter(self, op: Op, path: str = "") -> OpAdapter | None:
        """The adapter of an op of a module at a path; None where it has none."""
        target = self.target(op, path)
        if target is None or self.is_saved(op, path):
            return None
        word = target_of(op) or ""
        named = (rule for rule in self.rules if means(rule.match, path, word) and rule.has_layer(path))
        rank, alpha = self.rank, self.alpha
        for rule in named:
            rank, alpha = rule.rank, self.alpha if rule.alpha is None else rule.alpha
        return None if is_whole(rank) and rank == 0 else OpAdapter(target, rank, _factor(rank, alpha))

    def is_saved(self, op: Op, path: str = "") -> bool:
        """Whether a copy of the op of a module at a path is trained whole."""
        word = (target_of(op) or op.name) if self.saved and can_be_saved(op) else None
        return word is not None and any(means(name, path, word) for name in self.saved)

    def is_trained(self, op: Op, path: str = "") -> bool:
        """Whether the op of a module at a path trains its own weights."""
        return any(f".{name}." in f".{path}.{op.name}." for name in self.trained)

    def target(self, op: Op, path: str = "") -> str | None:
        """The first target that means this op of a module at a path; None where it is not adapted."""
        word = target_of(op)
        if word is None:
            return None
        is_every = isinstance(op, Linear | BlockDiagonal) and not NOT_IN_EVERY.fullmatch(word)
        return next(
            (
                target
                for target in self.targets
                if means(target, path, word) or (target == EVERY and is_every)
            ),
            None,
        )

    def check(self) -> Iterator[Conflict]:
        """Conflict: neither targets nor trained modules."""
        if not self.targets and not self.trained:
            yield Conflict(
                "lora-targets-empty",
                "targets",
                "targets must not be empty",
                "name projections, such as [q, v], or leave lora out",
            )

    def adapted(self, model: Module) -> Adapted:
        """The model wrapped to run its forward with these adapters."""
        return Adapted(model, partial(AdaptTape, lora=self))

    def _unknown(self, rows: Sequence[Row]) -> Iterator[Conflict]:
        """Conflicts: targets that mean none of these operations."""
        named = [
            (row.path.rpartition(".")[0], name) for row in rows if (name := target_of(row.op)) is not None
        ]
        projections = dict.fromkeys(name for _, name in named)
        for i, target in enumerate(self.targets):
            if target != EVERY and not any(means(target, *name) for name in named):
                yield Conflict(
                    "lora-target-unknown",
                    f"lora.targets.{i}",
                    f"no projection of this model is called {target!r}",
                    f"it has {', '.join(projections)}; or all_linear",
                )

        for i, saved in enumerate(self.saved):
            if not any(
                self.replace(saved=(saved,)).is_saved(row.op, row.path.rpartition(".")[0]) for row in rows
            ):
                what = f"no projection, table or norm of this model is called {saved!r}"
                hint = f"it has {', '.join(projections)}"
                yield Conflict("lora-saved-unknown", f"lora.saved.{i}", what, hint)
        for i, rule in enumerate(self.rules):
            if not any(means(rule.match, *name) for name in named):
                yield Conflict(
                    "lora-rule-unknown",
                    f"lora.rules.{i}.match",
                    f"no projection of this model is called {rule.match!r}",
                    f"it has {', '.join(projections)}",
                )

    def _untrained(self, rows: Sequence[Row]) -> Iterator[Conflict]:
        """Conflicts: trained modules without weights of their own."""
        for i, name in enumerate(self.trained):
            if not any(row.weights and row.trained and f".{name}." in f".{row.path}." for row in rows):
                what = f"no weights of this model lie in {name!r}"
                hint = "such as layers.0, final_norm or embedding; a tied head trains with the embedding"
                yield Conflict("lora-trained-unknown", f"lora.trained.{i}", what, hint)

    def check_model(self, model: Any) -> Iterator[Conflict]:
        """Conflicts: targets that are no projection of this model."""
        rows = outline(model)
        yield from self._unknown(rows)
        if self.trained:
            yield from self._untrained(outline(model, self.adapted(model)))
        if self.dora:
            yield from check_rows(row for row in rows if self.adapter(row.op, row.path.rpartition(".")[0]))
        if TABLE in (*self.targets, *self.saved) and model.mtp_depth:
            yield Conflict(
                "lora-mtp-embedding",
                "lora.targets",
                "the embedding cannot be adapted where mtp shares it",
                "leave embedding out of the targets, or mtp out",
            )
        if (
            HEAD in (*self.targets, *self.saved)
            and model.embedding.tied
            and (model.mtp_depth or model.trains_on_rows)
        ):
            yield Conflict(
                "lora-tied-head",
                "lora.targets",
                "the head cannot be adapted where training reads the table it is tied to",
                "write tied: false",
            )


class OpAdapter(NamedTuple):
    """The adapter of an op: the target that means it, its rank, and alpha / rank."""

    target: str
    rank: Number
    factor: Number


def _factor(rank: Number, alpha: Number | None) -> Number:
    # a float power, which numbers, symbols and arrays all have
    return 1.0 if alpha is None else alpha * rank**-1.0


def means(target: str, path: str, word: str) -> bool:
    """Whether a target, or a part of it between `+`, means the projection `word` of a module at a path.

    `q`, `attention.q` and `decoder.attention.q` all mean q of decoder.layers.0.attention.
    """
    name = f"{path}.{word}" if path else word
    return any(
        part == word or f".{name}".endswith(f".{part}") or _ends(name, part) for part in target.split("+")
    )


def _ends(name: str, part: str) -> bool:
    """Whether a name without the number of its layer ends so."""
    return "." in part and f".{IN_LAYER.sub('', name)}".endswith(f".{part}")


def target_of(op: Op) -> str | None:
    """The name of an op in `targets`, such as `q` for q_proj; None where it cannot be adapted."""
    # a tied head borrows its matrix and is a target; other borrowed matrices are another op's
    if isinstance(op, BlockDiagonal):
        return op.name.removesuffix("_proj") if op.is_matrix else None
    if isinstance(op, Linear) and (op.name == HEAD or not op.borrowed):
        return op.name.removesuffix("_proj")
    if isinstance(op, Gather):
        # the source's vectors by the table of the target; each has an adapter of its own
        return TABLES.get(op.name)
    return TABLES.get(op.name, op.name) if isinstance(op, Lookup) else None


@dataclass(frozen=True, slots=True)
class AdaptTape:
    """A tape around another: freezes all weights and adds adapters.

    `path` is that of the module whose ops it emits, `lows` holds A x of targets that share an A, and whose A
    it is: of q+k+v what q has computed stands ready for k and v. Adapters of a layer whose weights others
    share are shared with them, as they are parts of one module in PEFT; those of a block that several layers
    call are each caller's own (Zamba).
    """

    inner: Tape
    lora: LoRA
    path: str = ""
    lows: dict[tuple[str, int], tuple[Tensor, Tensor, Op]] = field(default_factory=dict, compare=False)

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Emit the op with frozen weights, followed by its adapter if it is a target; or its copy."""
        if self.lora.is_saved(op, self.path):
            if op.weights(*(x.shape for x in xs)):
                self.inner.weight(op, *xs, group=group, trained=False)
            copy, read = copy_of(op, xs)
            return on_tape(self, self.inner.emit(copy, *on_tape(self.inner, read), group=ADAPTERS))
        y = self.inner.emit(op, *xs, group=group, trained=trained and self.lora.is_trained(op, self.path))
        adapter = self.lora.adapter(op, self.path)
        if adapter is not None:
            low = self._low(op, xs, adapter)
            y = self._scaled(op, xs, y, low, adapter) if self.lora.dora else self._added(op, y, low, adapter)
        return on_tape(self, y)

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The frozen weight of an op; of a target W + (alpha / rank) B A.

        For modules that multiply with the matrix themselves: absorbed MLA, heads trained by rows, multi-token
        prediction. A tied head borrows the table without its adapter, as PEFT does.
        """
        trained = trained and self.lora.is_trained(op, self.path)
        weight = self.inner.weight(op, *xs, group=group, trained=trained, which=which)
        if isinstance(op, Linear) and self.lora.is_saved(op, self.path):
            copy, read = copy_of(op, xs)
            return on_tape(
                self, self.inner.weight(copy, *on_tape(self.inner, read), group=ADAPTERS, which=which)
            )
        adapter = self.lora.adapter(op, self.path)
        if isinstance(op, Linear) and which == "weight" and adapter is not None:
            if self.lora.dora:
                what = f"{op.name} has an adapter of DoRA, and its matrix is read elsewhere too"
                raise ArchError(what, "leave it out of lora.targets, or dora out")
            a, b = self._factors(op, xs[0], adapter)
            product = Einsum(f"{op.name}.lora_merge", "or,ri->oi")(b, a, group=ADAPTERS)
            weight = self._added(op, weight, product, adapter)
        merged: Tensor = on_tape(self, weight)
        return merged

    def declaring(self) -> AdaptTape | None:
        """A tape that declares weights, frozen and with their adapters."""
        inner = self.inner.declaring()
        return None if inner is None else AdaptTape(inner, self.lora, self.path)

    def unshared(self) -> AdaptTape:
        """An adapting tape around the tape of one occurrence's own weights."""
        return AdaptTape(self.inner.unshared(), self.lora, self.path)

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Call a child module on an adapting tape."""
        path = f"{self.path}.{name}" if self.path else name
        child: Any = Adapted(module, lambda tape: AdaptTape(tape, self.lora, path))
        return on_tape(self, self.inner.call(child, name, *on_tape(self.inner, args), **options))

    def inline(self, module: Module, group: str, *args: Any, **options: Any) -> Any:
        """Emit a module's ops on an adapting tape."""
        child: Any = Adapted(module, self._around)
        return on_tape(self, self.inner.inline(child, group, *on_tape(self.inner, args), **options))

    def occurrences(
        self, n_layers: Number, period: int, *, apart: bool = True
    ) -> Iterable[tuple[int, Number]]:
        """The occurrences of the wrapped tape, with the first of every layer separate.

        No gradient flows below the first adapter; after a period of layers the stream carries one, or never
        does, so all later layers are alike.
        """
        if self.lora.tells_layers_apart and is_whole(n_layers):
            yield from ((i, 1) for i in range(int(n_layers)))
        else:
            yield from self.inner.occurrences(n_layers, period, apart=True)

    def _around(self, tape: Tape) -> AdaptTape:
        return AdaptTape(tape, self.lora, self.path, self.lows)

    def _low(self, op: Op, xs: tuple[Tensor, ...], adapter: OpAdapter) -> Tensor:
        """B A x; of a table B a for the row a of A [entries, rank], where A starts as zero."""
        tape = self._for_adapters
        read, x = xs[0], Tensor(tape, xs[0].value)
        width = op.shape(*(x.shape for x in xs))[-1]
        if isinstance(op, Lookup | Gather):
            # PEFT starts A of a table at zero and B at random, of a projection the other way round
            entries = op.entries if isinstance(op, Lookup) else xs[1].shape[0]
            low = Lookup(f"{op.name}.lora_embedding_A", entries, adapter.rank, zeroed=True)(x, group=ADAPTERS)
            looked_up: Tensor = Linear(f"{op.name}.lora_embedding_B", width)(low, group=ADAPTERS)
            return looked_up
        # behind the branch of tables: ids cannot be dropped
        shared = self.lows.get((adapter.target, id(read.value)))
        if shared is None:
            x = dropped(x, self.lora.dropout, f"{op.name}.lora_dropout", ADAPTERS)
            low = self._narrowed(op, x, adapter)
        else:
            low = Tensor(tape, shared[1].value)
        if "+" in adapter.target:
            # with what it was made of, so that no later tensor has its id
            self.lows[adapter.target, id(read.value)] = (read, low, op if shared is None else shared[2])
        name = f"{op.name}.lora_B"
        if isinstance(op, BlockDiagonal):
            blocks: Tensor = BlockDiagonal(name, op.blocks, width, zeroed=True)(low, group=ADAPTERS)
            return blocks
        projected: Tensor = Linear(name, width, zeroed=True)(low, group=ADAPTERS)
        return projected

    def _narrowed(self, op: Op, x: Tensor, adapter: OpAdapter) -> Tensor:
        """A x; of blocks one A for all of them, as PEFT has it of a matrix that holds them."""
        a = Linear(f"{op.name}.lora_A", adapter.rank)
        if not isinstance(op, BlockDiagonal):
            low: Tensor = a(x, group=ADAPTERS)
            return low
        low = a(SplitHeads(f"{op.name}.lora_blocks", op.blocks)(x, group=ADAPTERS), group=ADAPTERS)
        joined: Tensor = MergeHeads(f"{op.name}.lora_joined")(low, group=ADAPTERS)
        return joined

    @property
    def _for_adapters(self) -> Tape:
        """The tape of adapters: in a block that several layers call, each caller's own."""
        return self.inner.unshared() if USE in self.path.split(".") else self.inner

    def _factors(self, op: Linear, x: Tensor, adapter: OpAdapter) -> tuple[Tensor, Tensor]:
        """The matrices A and B."""
        tape = self._for_adapters
        *_, first = self.lows.get((adapter.target, id(x.value)), (op,))
        # no token is read: B needs the width of its input alone
        low = Tensor(tape, Abstract((adapter.rank,)))
        a, b = Linear(f"{first.name}.lora_A", adapter.rank), Linear(f"{op.name}.lora_B", op.out, zeroed=True)
        read = Tensor(tape, x.value)
        return tape.weight(a, read, group=ADAPTERS), tape.weight(b, low, group=ADAPTERS)

    def _scaled(self, op: Any, xs: tuple[Tensor, ...], y: Tensor, low: Tensor, adapter: OpAdapter) -> Tensor:
        """m / |W + factor B A| (W x + factor B A x) + b."""
        names = ("weight", "bias") if op.bias else ("weight",)
        w = [self.inner.weight(op, *on_tape(self.inner, xs), trained=False, which=name) for name in names]
        read = on_tape(self._for_adapters, (y, low, *self._factors(op, xs[0], adapter), *w))
        return on_tape(self.inner, scaled(op.name, adapter.factor, *read))

    def _added(self, op: Op, y: Tensor, low: Tensor, adapter: OpAdapter) -> Tensor:
        low = Tensor(self.inner, low.value)
        scaled = Scale(f"{op.name}.lora_scale", adapter.factor)(low, group=ADAPTERS)
        total: Tensor = Add(f"{op.name}.lora_add")(y, scaled, group=ADAPTERS)
        return total
