"""Mixers: sublayers that mix the tokens of a sequence, such as attention or a Fourier transform.

B batch, T new tokens, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Annotated, Any, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.positions.position import NoPosition, Position
from archcli.modules.spec.base import Conflict, Module, Positive, Spec, find
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.modules.spec.values import Length
from archcli.ops import Add, Fourier, Scale


def head_parts(spec: Spec) -> int:
    """How many query heads make one head of a module: 2 of differential attention, else 1."""
    parts: int = getattr(spec, "head_parts", 1)
    return parts


def heads_unit(spec: Spec) -> int:
    """The number that divides a module's heads: of its groups, those of its norm, and parts of a head.

    Of a pattern that shifts from head to head the stride divides them, too.
    """
    groups: int = max(getattr(spec, "n_groups", 1), getattr(getattr(spec, "norm", None), "groups", 1) or 1)
    shifts: int = getattr(getattr(spec, "sparsity", None), "heads_unit", 1)
    return lcm(groups, head_parts(spec), shifts)


def derives_head_width(spec: Spec) -> bool:
    """Whether the width of a module's heads is d_model over their number, as no field states it."""
    # 0 for a module without the field: it derives nothing
    return getattr(spec, "head_dim", 0) is None


@dataclass(frozen=True, slots=True)
class RecurrenceFacts:
    """Facts of a mixer that carries a state of constant size; None for a property that it lacks.

    `n_heads` states are each `key_dim` (what is written to and read by: `state`, the width of a key) times
    `value_dim` (what is stored: the width of a head or value). `n_groups` keys are shared by the heads.
    `chunk` tokens are computed at once in the chunked form. `conv_kernel` taps has the convolution before it.
    """

    n_heads: Number = None
    key_dim: Number = None
    value_dim: Number = None
    n_groups: Number = None
    chunk: Number = None
    conv_kernel: Number = None


@dataclass(frozen=True, slots=True)
class MixerFacts:
    """Facts of a mixer for measures and rules; None for a property that it lacks.

    kind: that of the YAML. causal: no token sees a later one.
    n_heads, n_kv_heads: heads of queries; of keys and values.
    head_dim, v_head_dim: the width of a head of queries and keys; of values.
    content_dim: head_dim without dims that carry position alone (MLA's).
    rotary_dim: dims that a rotary position may turn. position: that of the heads.
    window, chunk, sparsity, sparse_window: the fields of those names; the window of a sparse pattern.
    pattern: in words which tokens are seen.
    index_from, kv_from: the layer whose chosen keys, or keys and values, it reads.
    stability: the fields that keep scores from growing.
    recurrence: what a recurrence has in place of heads of queries, keys and values.
    """

    kind: str | None = None
    causal: bool = True
    has_scores: bool = False
    """Whether every query has a score for every key it sees: a cost that is quadratic in the length."""
    is_latent: bool = False
    """Whether its cache holds a latent from which keys and values are rebuilt."""
    n_heads: Number = None
    n_kv_heads: Number = None
    head_dim: Number = None
    v_head_dim: Number = None
    content_dim: Number = None
    rotary_dim: Number = None
    window: Number = None
    chunk: Number = None
    sparsity: str | None = None
    sparse_window: Number = None
    indexed: Number = None
    """How many keys an indexer chooses for each query."""
    index_from: int | None = None
    blocks_of: Number = None
    """How many tokens each key of its blocks stands for, where it sees blocks of all earlier tokens."""
    pattern: str | None = None
    position: Position = field(default_factory=NoPosition)
    stability: tuple[str, ...] = ()
    kv_from: int | None = None
    recurrence: RecurrenceFacts | None = None


RECURRENT = "recurrent"
"""The pattern of a mixer that sees tokens through its state alone."""

READS_LAYER = ("kv_from", "index_from")
"""Fields with the number of an earlier layer, whose keys and values or chosen keys a mixer reads."""

NO_MIXER = MixerFacts()
"""The facts of a layer that mixes no tokens."""


def joined_facts(facts: Sequence[MixerFacts]) -> MixerFacts:
    """The facts of several mixers of one layer: of the first with heads, under the kinds of all."""
    headed = next((fact for fact in facts if fact.has_scores), facts[0])
    return replace(
        headed,
        kind=" + ".join(str(fact.kind) for fact in facts),
        causal=all(fact.causal for fact in facts),
        recurrence=next((fact.recurrence for fact in facts if fact.recurrence), None),
    )


class Mixer(Module):
    """A sublayer that mixes tokens; a layer names it under `attention` or `mixer`.

    Subclasses state their fields and `forward`; the other methods have defaults. `in_multiplier` and
    `out_multiplier` are constant factors on what it reads and on what it returns (Falcon-H1,
    arXiv:2507.22448).
    """

    family: ClassVar[str] = "attention"
    title: ClassVar[str] = ""
    """What the field calls it, in a drawing; empty for the name of the class."""
    short_title: ClassVar[str] = ""
    """The same in at most 16 letters."""
    group: ClassVar[str] = "mixer"
    has_scores: ClassVar[bool] = False
    """Whether a score bias that layers share is added to its scores."""
    reads_source: ClassVar[bool] = False
    """Whether its queries read an encoder's output, too."""
    narrows: ClassVar[bool] = False
    """Whether it can return vectors of another width than it reads."""
    in_multiplier: Positive = 1.0
    out_multiplier: Positive = 1.0

    def __call__(self, x: Tensor, context: Context | None = None, *, name: str) -> tuple[Tensor, Kept]:
        """Run as a child called `name`, between its two multipliers."""
        if self.in_multiplier != 1.0:
            x = Scale(f"{name}_in_multiplier", self.in_multiplier)(x)
        y, kept = super().__call__(x, context, name=name)
        if self.out_multiplier != 1.0:
            y = Scale(f"{name}_out_multiplier", self.out_multiplier)(y)
        return y, kept

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D], and the layer's states afterwards; None for a pass that caches nothing."""
        raise NotImplementedError

    def members(self, path: str) -> Iterator[tuple[str, Mixer]]:
        """(full path, mixer) of every mixer that it is made of: itself at `path`, or its branches."""
        yield path, self

    def table(
        self, positions: Tensor, d_model: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """The rotary table that the heads need, computed once per stack; None without rotation."""
        return None

    @property
    def turns_heads(self) -> bool:
        """Whether it reads a rotary table."""
        position = getattr(self, "position", None)
        return position is not None and position.acts_on == "heads"

    @property
    def relative_span(self) -> int | None:
        """The reach of the stack's table of relative positions; None for a mixer that reads none."""
        return None

    def facts(self, d_model: Number = None) -> MixerFacts:
        """The facts that measures and rules read. Widths that depend on d_model need it given."""
        kind, source = getattr(self, "kind", type(self).__name__), getattr(self, "kv_from", None)
        return MixerFacts(kind=kind, has_scores=self.has_scores, kv_from=source)

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts with a residual stream of width D."""
        yield from ()


def mixers(model: Spec) -> Iterator[tuple[str, Mixer]]:
    """(full path, mixer) of every mixer of a model that is not made of others."""
    # `find` names a ParallelMixer and its branches; its members are the branches alone
    for path, mixer in find(model, Mixer):
        yield from ((at, member) for at, member in mixer.members(path) if member is mixer)


class FourierMixer(Mixer):
    """y = Re F_T(F_D(x)), discrete Fourier transforms along the channels and along the tokens.

    FNet, Lee-Thorp et al. 2021, arXiv:2105.03824 section 3.2. For encoders: every token sees every other.
    """

    title: ClassVar[str] = "Fourier transform"
    short_title: ClassVar[str] = "Fourier"
    kind: Literal["fourier"] = "fourier"

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; nothing is cached."""
        y: Tensor = Fourier("transform")(x)
        return y, None if context is None or context.cache is None else ()

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """A mixer of all tokens, without heads."""
        return replace(super().facts(d_model), causal=False, pattern="bidirectional")


class ParallelMixer(Mixer):
    """y = sum over the branches of out_i M_i(in_i x), all of which read the same x.

    Falcon-H1, arXiv:2507.22448; Hymba, arXiv:2411.13676.

    in_i and out_i are the `in_multiplier` and `out_multiplier` of a branch. Each branch keeps its own states;
    the cache is the tuple of theirs. A branch is called by the heading of its parameters, `attention` or
    `recurrent`, numbered from the second of a name on.
    """

    kind: Literal["parallel"] = "parallel"
    branches: Annotated[tuple[Mixer, ...], Length(least=2)]

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D], and a tuple of each branch's states."""
        context = or_default(x, context)
        # None and () mean the same to each branch as to the layer
        caches = context.cache or (context.cache,) * len(self.branches)
        turned = next((i for i, branch in enumerate(self.branches) if branch.turns_heads), None)
        total: Any = None
        kept = []
        for i, (name, branch) in enumerate(self.named):
            # the stack's table is for the first branch that turns heads: another may turn other widths
            table = context.rotary if i == turned else None
            y, states = branch(x, context._replace(cache=caches[i], rotary=table), name=name)
            kept.append(states)
            total = y if total is None else Add(f"{name}_add", meets=False)(total, y)
        return total, None if context.cache is None else tuple(kept)

    @property
    def named(self) -> Iterator[tuple[str, Mixer]]:
        """(name, branch): the branch's heading, with a number where it is not the first of that name."""
        seen: dict[str, int] = {}
        for branch in self.branches:
            nth = seen[branch.group] = seen.get(branch.group, -1) + 1
            yield f"{branch.group}_{nth}" if nth else branch.group, branch

    @property
    def turns_heads(self) -> bool:
        """Whether a branch reads a rotary table."""
        return any(branch.turns_heads for branch in self.branches)

    def members(self, path: str) -> Iterator[tuple[str, Mixer]]:
        """The members of every branch."""
        for i, branch in enumerate(self.branches):
            yield from branch.members(f"{path}.branches.{i}")

    def table(
        self, positions: Tensor, d_model: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """The rotary table of the first branch that turns heads; another makes its own."""
        turning = next((branch for branch in self.branches if branch.turns_heads), None)
        return None if turning is None else turning.table(positions, d_model, name, like)

    def facts(self, d_model: Number = None) -> MixerFacts:
        """The facts of the first branch with heads, under the kinds of all branches."""
        return joined_facts([branch.facts(d_model) for branch in self.branches])

    def check(self) -> Iterator[Conflict]:
        """Conflict: causal branches beside branches that look ahead."""
        yield from super().check()
        if len({branch.facts().causal for branch in self.branches}) > 1:
            what, hint = "some branches are causal and some are not", "make them alike"
            yield Conflict("branches-direction", "branches", what, hint)

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of the branches with a residual stream of width D."""
        for i, branch in enumerate(self.branches):
            yield from (conflict.below(f"branches.{i}") for conflict in branch.check_width(d_model))
