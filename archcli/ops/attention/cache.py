"""The KV cache of attention: new entries behind cached ones, and what is kept for the next step.

B batch, T new tokens, P cached tokens, K kv heads, d head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Shape, prod
from archcli.graph import Op, Part, State, StateContent, StateKind
from archcli.ops.attention.mask import Mask
from archcli.ops.base import movement


@dataclass(frozen=True, slots=True, eq=False)
class ExtendCache(Op):
    """Put new entries [B, T, K, d] behind cached ones [B, P, K, d].

    Inputs: the new entries, then, unless the cache is empty, the cached ones. Outputs: what attention may see
    now, [B, keep(P)+T, K, d], and what is kept for the next step, [B, min(P+T, window), K, d]: a view where
    that is all, else a copy, so that the cache does not hold on to entries that nothing sees. The caller owns
    both caches.

    `cross` marks entries of an encoder's output, which are reported apart; `content` says what the entries
    are.
    """

    drawn: ClassVar[str] = "view"
    name: str
    mask: Mask
    cross: bool = False
    content: StateContent = StateContent.KEYS_VALUES

    def shape(self, new: Shape, past: Shape | None = None) -> tuple[Shape, Shape]:
        before = 0 if past is None else past[1]
        visible = self.mask.keep(before) + new[1]
        kept = self.mask.keep(before + new[1] - 1) + 1
        return (new[0], visible, *new[2:]), (new[0], kept, *new[2:])

    def parts(self, new: Shape, past: Shape | None = None) -> tuple[Part, ...]:
        return (movement("append", prod(new), prod(new)),)

    def states(self, new: Shape, past: Shape | None = None) -> tuple[State, ...]:
        kept = self.shape(new, past)[1]
        return (State(prod(kept), self._kind, kept[1], self.content),)

    @property
    def _kind(self) -> StateKind:
        if self.cross:
            return StateKind.SOURCE
        return StateKind.WINDOW if self.mask.bounded else StateKind.TOKENS

    def run(self, torch: Any, weights: dict[str, Any], new: Any, past: Any = None) -> Any:
        visible = new
        if past is not None:
            seen = self.mask.keep(past.shape[1])
            visible = torch.cat([past[:, past.shape[1] - seen :], new], dim=1)
        _, (_, kept, *_) = self.shape(*(tuple(x.shape) for x in (new, past) if x is not None))
        entries = visible.shape[1]
        return visible, visible if kept == entries else visible[:, entries - kept :].clone()
