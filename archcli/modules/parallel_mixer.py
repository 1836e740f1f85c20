"""Mixers side by side on the same tokens, such as attention beside a state space model.

B batch, T new tokens, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.base import Conflict
from archcli.modules.context import Context, or_default
from archcli.modules.mixer import Kept, Mixer, MixerFacts, joined_facts
from archcli.modules.values import Length
from archcli.ops import Add


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
        """[B, T, D] to [B, T, D], and the tuple of what each branch keeps."""
        context = or_default(x, context)
        caches = context.cache or (context.cache,) * len(self.branches)
        turned = next((i for i, branch in enumerate(self.branches) if branch.turns_heads), None)
        total: Any = None
        kept = []
        for i, (name, branch) in enumerate(self.named):
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
        """Conflict: branches of which some look ahead and some do not."""
        yield from super().check()
        if len({branch.facts().causal for branch in self.branches}) > 1:
            what, hint = "some branches are causal and some are not", "make them alike"
            yield Conflict("branches-direction", "branches", what, hint)

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of the branches with a residual stream of width D."""
        for i, branch in enumerate(self.branches):
            yield from (conflict.below(f"branches.{i}") for conflict in branch.check_width(d_model))
