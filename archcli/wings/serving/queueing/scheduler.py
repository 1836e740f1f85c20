"""Scheduler: the facts of an engine by which its server fills a pass and admits requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

Reserves = Literal["prompt", "share", "all"]
"""What must be free to admit a request: its prompt, a share of the tokens to come, or all of them."""
IN_TURN = "in turn"
"""The word for prompts that run between passes of tokens."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """How an engine fills a pass.

    pass_tokens: the most of a pass; None is any number. max_sequences: the most that run at once.
    mixes: prompts run in one pass with the tokens of other sequences, which come first; else alone, before
    them. cuts: a prompt may be cut to fill a pass. reserves: what must be free to admit a request.
    share: of `share`, the part of the tokens to come at first, the least, and the steps between both.
    ahead: tokens for which there is room in each sequence that is left after one gave way. clip: the most
    tokens to come for which a request must find room; None is all.
    watermark: part of the cache that is left free when a request is admitted.
    prompts, piece: the most prompts of a pass, and tokens of each; None is any number.
    micro_batch: tokens of the kernels' passes that a pass is cut into; None is all of them.
    pools: how memory is cut into pools for states, windows and tokens.
    in_turn: prompts run after a pass of tokens, in one of their own, and share no weights with them.
    """

    pass_tokens: int | None = None
    max_sequences: int | None = None
    mixes: bool = True
    cuts: bool = True
    reserves: Reserves = "prompt"
    share: tuple[float, float, int] = (1.0, 1.0, 1)
    ahead: int = 1
    clip: int | None = None
    watermark: float = 0.0
    prompts: int | None = None
    piece: int | None = None
    micro_batch: int | None = None
    in_turn: bool = False
    pools: Mapping[str, float] | None = None

    @classmethod
    def of(cls, facts: Mapping[str, Any], chunk: int | None, **sizes: Any) -> Scheduler | None:
        """The scheduler that an engine's YAML states, with such chunks; None where nobody read it."""
        if "reserves" not in facts:
            return None
        mixes, cuts, prompts = facts["mixes_prompts"], facts["cuts_prompts"], facts.get("prompts_at_once")
        sizes["pass_tokens"] = chunk and max(chunk * (prompts or 1), facts.get("pass_tokens", 0))
        sizes |= {"prompts": prompts, "piece": chunk} if prompts else {}
        sizes |= {"micro_batch": chunk} if "pass_tokens" in facts else {}
        share = facts.get("reserve_share")
        if share is not None:
            sizes |= {"ahead": share["ahead"], "clip": share["clip"]}
            sizes["share"] = share["first"], share["least"], share["steps"]
        sizes |= {"in_turn": mixes == IN_TURN, "pools": facts.get("pools")}
        return cls(mixes=bool(mixes), cuts=cuts, reserves=facts["reserves"], **sizes)


class CacheRoom(NamedTuple):
    """A replica's cache in pages of `page` tokens, with as many `fixed` pages for each sequence.

    A recurrent state, or what a window holds at the shortest length asked for, is fixed. `page_bytes` are
    those of one device. sequences: the most for whose states there is room.
    """

    pages: float = inf
    page: int = 1
    fixed: float = 0.0
    page_bytes: float = 0.0
    sequences: float = inf

    def of(self, tokens: int) -> float:
        """Pages of a sequence of so many tokens."""
        return self.fixed + -(-tokens // self.page)
