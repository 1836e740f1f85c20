"""Stacks: consecutive groups of layers with a shared final norm and score bias.

Models and the halves of an encoder-decoder are made of one.

B batch, T new tokens, S visible tokens, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from archcli.arith import Number, Shape, is_less, is_whole, label
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.mixer import READS_LAYER, Mixer
from archcli.modules.blocks.block import Block
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Inherit, Module, Size, Spec, children
from archcli.modules.spec.context import Context, LayerCache, SharedBlocks
from archcli.modules.spec.values import Length
from archcli.ops import Positions

if TYPE_CHECKING:  # a field of few, imported where it is given a value
    from archcli.modules.attention.disentangled import RelativeTable
    from archcli.modules.blocks.reused_keys import LentEntries
    from archcli.modules.positions.relative import ScoreBias

UNREAD = "unread"
"""The option of a call whose result nothing reads, so that no gradient flows to it."""
Cached = tuple[Any, ...] | None
AXES = 3
"""Axes of a sequence of vectors; a grid has one more."""


class Group(Spec):
    """`n_layers` layers that repeat one `layer`, or a `pattern` of layers (five local, one global).

    With `tie` they share weights: those of the layer, or of the pattern, are stored once and used again every
    time (ALBERT, arXiv:1909.11942 section 3.1; Universal Transformer, arXiv:1807.03819).
    """

    n_layers: Size
    layer: Block | None = None
    pattern: tuple[Block, ...] = ()
    tie: bool = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The layers of one period; in a group shorter than its pattern only those that run."""
        pattern = self.pattern if self.layer is None else (self.layer,)
        return pattern[: self.n_layers] if is_less(self.n_layers, len(pattern)) else pattern

    def step(self, j: int) -> str:
        """The YAML path of layer j of a period below the group's."""
        return f"pattern.{j}" if self.layer is None else "layer"

    def run(
        self, x: Tensor, context: Context, start: Number, lent: LentEntries | None = None, group: int = 0
    ) -> tuple[Tensor, Cached]:
        """[B, T, D] through all layers, the first of which is layer `start`.

        The cache has an entry per layer, when counting per distinct layer. `lent` are the keys and values
        that layers lend to each other; there this group has the number `group`.
        """
        blocks, cache = [block.resolved(context.shared) for block in self.blocks], context.cache
        # a table for each place of the pattern: layers that are alike read the same one
        turning = context.positions if context.places is None else context.places
        tables = [
            block.table(turning, x.shape[-1], f"rotary.{label(start + i)}", x)
            for i, (block, _, _) in enumerate(blocks)
        ]
        between = context.between
        unread = UNREAD if between is not None and between.is_unread(start) else None
        kept, shape = [], x.shape
        for place, (i, times) in enumerate(x.tape.occurrences(self.n_layers, len(blocks))):
            before = cache[place] if cache else LayerCache(0, ())
            number = start + i
            of_layer = context._replace(
                rotary=tables[i % len(blocks)],
                cache=None if cache is None else before.states,
                layer=number,
            )
            block, runs, key = blocks[i % len(blocks)]
            if lent is not None:
                of_layer = lent.context_of(of_layer, block, (group, i % len(blocks)))
            # a shared block brings its own key: it is stored once for all groups
            if self.tie and key is None:
                key = f"{context.shared.stack}.layers.{label(start + i % len(blocks))}"
            x, states = x.tape.call(
                runs, f"layers.{label(number)}", x, of_layer, times=times, shares=key, no_grad=unread
            )
            if lent is not None:
                states = lent.taken(states, number, (group, i % len(blocks)))
            x = x if between is None else between.passed(number, x, times, len(blocks))
            kept.append(LayerCache(before.length + context.positions.shape[0], states))
        if is_whole(self.n_layers) and len(blocks) < self.n_layers:
            _check_grid(shape, x.shape)
        return x, None if cache is None else tuple(kept)

    def check(self) -> Iterator[Conflict]:
        """Conflict: both layer and pattern, or neither."""
        if self.layer is None and not self.pattern:
            yield Conflict(
                "group-empty",
                "layer",
                "a group needs a layer, or a pattern of layers",
                "add layer: {kind: pre_norm, …}",
            )
        if self.layer is not None and self.pattern:
            yield Conflict(
                "layer-or-pattern",
                "pattern",
                "a group has a layer or a pattern, not both",
                "leave one of them out",
            )

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of the layers with a residual stream of width D."""
        for step, block in children(self):
            if isinstance(block, Block):
                yield from (conflict.below(step) for conflict in block.check_width(d_model))


def _behind(group: Group, context: Context, x: Tensor, number: int) -> Context:
    """What layers behind a group are given: places of fewer tokens where it merges patches of a sequence."""
    grid = context.grid
    if grid is None or len(x.shape) > AXES:
        return context
    for block in group.blocks:
        grid = block.places_after(grid)
    if grid is context.grid:
        return context
    return context._replace(positions=Positions(f"positions{number}")(x), grid=grid, places=None)


def _check_grid(before: Shape, after: Shape) -> None:
    """ArchError where repeated layers make a grid coarser or wider: a repetition is counted once."""
    if all(map(is_whole, (*before, *after))) and tuple(before) != tuple(after):
        what = "a group repeats a layer that makes the grid coarser or wider"
        raise ArchError(what, "give each such layer a group of its own, with n_layers: 1")


class Stack(Module):
    """x through all groups, then the final norm.

    `final_norm` false leaves the norm out (BERT, the original Transformer).

    `shared` are blocks by name that layers of kind shared use: their weights are stored once (Zamba,
    arXiv:2405.16712).

    `relative` is a table of relative positions that attention of kind disentangled reads (DeBERTa).
    `score_bias` is computed once and added to the attention scores of every layer (T5's relative positions).
    """

    is_causal: ClassVar[bool] = True
    """Whether its layers are to see earlier tokens alone."""
    norm: Annotated[Norm, Inherit("norm")]
    final_norm: bool = True
    shared: Mapping[str, Block] = {}
    score_bias: ScoreBias | None = None
    relative: RelativeTable | None = None
    groups: Annotated[tuple[Group, ...], Length(least=1)]

    def run(self, x: Tensor, context: Context) -> tuple[Tensor, Cached]:
        """[B, T, D] to [B, T, D] through all layers; the cache has an entry per group."""
        cache = context.cache
        if self.shared:
            # held where a block reads it alone: else it would stay in memory through all layers
            reads = any(block.reads_embedding for block in self.shared.values())
            context = context._replace(embedding=x if reads else None)
        context = context._replace(shared=SharedBlocks(type(self).__name__, self.shared))
        start: Number = 0
        context = context._replace(n_layers=sum(group.n_layers for group in self.groups))
        if self.score_bias is not None:
            # all layers have seen the same tokens: the first knows how many
            visible = context.positions.shape[0] + (cache[0][0].length if cache else 0)
            bias = self.score_bias(context.positions, visible, self._n_heads, name="score_bias")
            context = context._replace(bias=bias)
        if self.relative is not None:
            context = context._replace(relative=self.relative(x, name="relative"))
        kept = []
        # `_check_streams` makes all layers alike: the first opens the streams, the last closes them
        ends = [self.groups[0].blocks[0], self.groups[-1].blocks[-1]] if self.groups else []
        x = ends[0].enter(x) if ends else x
        lent = self._lent()
        for i, group in enumerate(self.groups):
            of_group = context._replace(cache=cache[i] if cache else cache)
            x, entry = group.run(x, of_group, start, lent, i)
            kept.append(entry)
            context = _behind(group, context, x, i)
            start = start + group.n_layers
        x = ends[1].leave(x) if ends else x
        return x, None if cache is None else tuple(kept)

    def _layers(self) -> list[tuple[Number, tuple[Block, ...]]]:
        return [(group.n_layers, group.blocks) for group in self.groups]

    @property
    def lends(self) -> bool:
        """Whether some layer reads the keys, values or choice of another, which it names by number."""
        pairs = filter(None, [block.mixing for group in self.groups for block in group.blocks])
        members = (member for key, mixer in pairs for _, member in mixer.members(key))
        return any(getattr(member, field, None) is not None for member in members for field in READS_LAYER)

    def _lent(self) -> LentEntries | None:
        """The entries that layers lend to each other; None if no layer reads another's."""
        if not self.lends:
            return None
        from archcli.modules.blocks.reused_keys import LentEntries  # rare

        return LentEntries(self._layers())

    def apply_final_norm(self, x: Tensor, unread: str | None = None) -> Tensor:
        """The final norm, if there is one; `unread` where nothing reads what it makes."""
        if not self.final_norm:
            return x
        options = {} if unread is None else {"no_grad": unread}
        normalized: Tensor = self.norm(x, name="final_norm", **options)
        return normalized

    @property
    def _n_heads(self) -> Number:
        return next(self._scored())[1].n_heads

    def _scored(self) -> Iterator[tuple[str, Any]]:
        """(YAML path of its group, mixer) of every layer whose scores take a shared bias."""
        for place, mixer in self._mixers():
            group = ".".join(place.split(".")[:2])
            yield from ((group, member) for _, member in mixer.members(place) if member.has_scores)

    def _mixers(self) -> Iterator[tuple[str, Mixer]]:
        """(YAML path, mixer) of every layer that has one."""
        blocks = [*self.layers(), *((f"shared.{name}", block) for name, block in self.shared.items())]
        for place, block in blocks:
            if block.mixing is not None:
                yield f"{place}.{block.mixing[0]}", block.mixing[1]

    def layers(self) -> Iterator[tuple[str, Block]]:
        """(YAML path, block) of every layer that is stated."""
        for i, group in enumerate(self.groups):
            for step, block in children(group):
                if isinstance(block, Block):
                    yield f"groups.{i}.{step}", block

    @property
    def shares_blocks(self) -> bool:
        """Whether layers share a block, or are to."""
        return bool(self.shared) or any(block.used is not None for _, block in self.layers())

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of any layer with a residual stream of width D, or with the layers it shares with."""
        too_narrow = [
            conflict.below(f"groups.{i}")
            for i, group in enumerate(self.groups)
            for conflict in group.check_width(d_model)
        ]
        yield from too_narrow
        # facts of layers that do not fit their width cannot be compared
        if not too_narrow and self._lent() is not None:
            from archcli.modules.blocks.reused_keys import check_sharing  # rare

            for (i, j), conflict in check_sharing(self._layers(), d_model):
                block = self.groups[i].blocks[j]
                key = "" if block.mixing is None else block.mixing[0]
                yield conflict.below(f"groups.{i}.{self.groups[i].step(j)}.{key}")
        for name, block in self.shared.items():
            yield from (conflict.below(f"shared.{name}") for conflict in block.check_width(d_model))

    def check(self) -> Iterator[Conflict]:
        """Conflicts of layers with what the stack computes for them all."""
        yield from super().check()
        yield from self._check_relative()
        yield from self._check_streams()
        if self.score_bias is not None:
            yield from self._check_score_bias()

    def _check_relative(self) -> Iterator[Conflict]:
        """Conflicts: relative positions that are read and not stated, of another size, or not read."""
        size = None if self.relative is None else self.relative.size
        spans = [(place, mixer.relative_span) for place, mixer in self._mixers()]
        for place, span in spans:
            if span is not None and size is None:
                what = "disentangled attention reads a table of relative positions, which its stack states"
                yield Conflict("relative-missing", place, what, f"add relative: {{size: {span}}}")
            elif span not in (None, size):
                what = f"it reads {span} relative positions to each side, and the table has {size}"
                yield Conflict("relative-size", place, what, f"write size: {span} in relative")
        if size is not None and all(span is None for _, span in spans):
            what = "no layer reads a table of relative positions"
            yield Conflict("relative-unused", "relative", what, "leave it out")

    def _check_score_bias(self) -> Iterator[Conflict]:
        """Conflicts of a shared score bias: unequal numbers of heads, or windows."""
        if not any(self._scored()):
            yield Conflict(
                "score-bias-without-scores",
                "score_bias",
                "no layer has scores to which a bias could be added",
                "leave score_bias out",
            )
        for group, mixer in self._scored():
            if mixer.position.shares_bias:
                yield Conflict(
                    "one-score-bias",
                    group,
                    "a layer's position adds a bias to the scores, as score_bias does",
                    "leave one of them out",
                )
            if mixer.n_heads != self._n_heads or mixer.window or mixer.chunk:
                yield Conflict(
                    "score-bias-layers-alike",
                    group,
                    "layers that share a score bias need equal n_heads, no window and no chunk",
                    "make them alike",
                )
            if self.score_bias is not None and mixer.facts().blocks_of != self.score_bias.blocks_of:
                what = "a layer and score_bias differ in the keys that sum blocks of tokens"
                hint = "transient_global and token_and_block_buckets go together, with equal block"
                yield Conflict("score-bias-blocks", group, what, hint)

    def _check_streams(self) -> Iterator[Conflict]:
        """Conflicts: unequal numbers of streams, per-layer embeddings that nobody reads or makes."""
        blocks = [block for group in self.groups for block in group.blocks]
        several = {(getattr(block, "kind", ""), block.streams) for block in blocks if block.streams != 1}
        if len(several) > 1 or (several and any(block.streams == 1 for block in blocks)):
            kind = min(several)[0]
            what = f"layers of kind {kind} stand among others, or differ in their number of streams"
            hint = f"make all layers of kind {kind}, with equal streams"
            yield Conflict("streams-alike", "groups", what, hint)
        reads = any(getattr(block, "per_layer_gate", None) is not None for block in blocks)
        if reads and getattr(self, "per_layer_embedding", None) is None:
            what = "a layer has a per_layer_gate, and the model no per_layer_embedding"
            yield Conflict(
                "per-layer-gate", "groups", what, "add per_layer_embedding: {width: …, vocab_size: …}"
            )
        elif not reads and getattr(self, "per_layer_embedding", None) is not None:
            what, hint = "no layer reads it", "give layers of kind sandwich or altup a per_layer_gate"
            yield Conflict("per-layer-unread", "per_layer_embedding", what, hint)


def ended_behind(n_layers: int, groups: Iterable[Group]) -> Iterator[Group]:
    """The groups, with one in two that would go on behind the first `n_layers` layers."""
    left = n_layers
    for group in groups:
        if is_whole(group.n_layers) and 0 < left < group.n_layers and not group.tie:
            turn = left % max(len(group.pattern), 1)
            pattern = group.pattern[turn:] + group.pattern[:turn]
            yield group.replace(n_layers=left)
            yield group.replace(n_layers=group.n_layers - left, pattern=pattern)
        else:
            yield group
        left = left - group.n_layers


def stacks(model: Spec) -> Iterator[tuple[str, Stack]]:
    """(prefix, stack) of every stack of layers in a model.

    The prefix begins the paths of the stack: `encoder.`; it is empty where the model is the stack.
    """
    if isinstance(model, Stack):
        yield "", model
    yield from ((f"{step}.", child) for step, child in children(model) if isinstance(child, Stack))
