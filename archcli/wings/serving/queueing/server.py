"""A simulated server: one pass after the other, with the sequences that its scheduler puts into each.

Discrete events: a pass ends, a request arrives. Passes of tokens alone, between which nothing begins or ends,
are one event. Each pass takes the seconds that its kernels do.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import NamedTuple, Protocol

from archcli.errors import ArchError
from archcli.wings.serving.queueing.requests import Clients, LoadRequest
from archcli.wings.serving.queueing.scheduler import CacheRoom, Scheduler

LOOKS = 10
"""Steps after which a scheduler that reserves a share looks again whether a request is admitted."""
ROUNDING = 1e-9


class PromptPiece(NamedTuple):
    """Tokens of a prompt in a pass, behind those of it that are cached."""

    tokens: int
    past: int


class PassTimes(Protocol):
    """Seconds of passes."""

    def tokens_s(self, sequences: int, context: float) -> float:
        """A pass that makes a token of each of so many sequences, behind so many tokens in the mean."""

    def mixed_s(self, sequences: int, context: float, pieces: Sequence[PromptPiece]) -> float:
        """A pass with pieces of prompts as well; without sequences, of these alone."""


@dataclass(eq=False, slots=True)
class Served:
    """A request on a server: tokens generated and cached, tokens to prefill, and its times."""

    request: LoadRequest
    generated: int = 0
    cached: int = 0
    goal: int = 0
    last_step: int = 0
    held: float = 0.0
    first_s: float = 0.0
    end_s: float = 0.0
    is_received: bool = False

    @property
    def left(self) -> int:
        """Tokens of its prompt that are not cached."""
        return self.goal - self.cached


@dataclass(slots=True)
class Integrals:
    """Sums over time of what runs and waits, and of the cache's pages; and the most at once."""

    running: float = 0.0
    waiting: float = 0.0
    pages: float = 0.0
    most_running: int = 0
    most_waiting: int = 0
    most_pages: float = 0.0

    def add(self, seconds: float, running: int, waiting: int, pages: float) -> None:
        """What held for so many seconds."""
        self.running += seconds * running
        self.waiting += seconds * waiting
        self.pages += seconds * pages
        self.most_running = max(self.most_running, running)
        self.most_waiting = max(self.most_waiting, waiting)
        self.most_pages = max(self.most_pages, pages)


@dataclass(slots=True)
class Server:
    """One replica with its queue, its cache and its clock."""

    scheduler: Scheduler
    room: CacheRoom
    times: PassTimes
    clients: Clients
    now: float = 0.0
    preemptions: int = 0
    ended: list[Served] = field(default_factory=list)
    gaps: list[tuple[float, int]] = field(default_factory=list)
    over_time: Integrals = field(default_factory=Integrals)
    _waiting: deque[Served] = field(default_factory=deque)
    _prefilling: dict[Served, None] = field(default_factory=dict)
    _decoding: dict[Served, None] = field(default_factory=dict)
    _last: list[tuple[int, int, Served]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=count)
    _phases: Counter[int] = field(default_factory=Counter)
    _steps: int = 0
    _context: int = 0
    _to_come: int = 0
    _pages: float = 0.0
    _share: float = 1.0
    _stalled: float = 0.0

    def run(self) -> None:
        """Serve all requests. Raises ArchError for one whose tokens are more than the cache holds."""
        self._share = self.scheduler.share[0]
        while True:
            self._take_in()
            if not (self._waiting or self._prefilling or self._decoding):
                if self.clients.next_s == inf:
                    return
                self.over_time.add(self.clients.next_s - self.now, 0, 0, self._pages)
                self.now = self.clients.next_s
                continue
            self._pass()

    def _take_in(self) -> None:
        for request in self.clients.sent(self.now):
            self.over_time.waiting += self.now - request.arrival_s
            served = Served(request, cached=request.cached, goal=request.prompt)
            served.is_received = request.is_received
            self._waiting.append(served)
            if self._pages_of(self._waiting[-1], request.prompt + request.new) > self.room.pages:
                raise too_long(request, self.room)

    def _pass(self) -> None:
        """One pass, or several alike of tokens alone."""
        mixes, gave_way = self.scheduler.mixes, False
        if mixes:
            gave_way = self._make_room()
        pieces = self._prompts(admits=not gave_way)
        if not mixes and not pieces:
            gave_way = self._make_room()
        decoding = len(self._decoding) if mixes or not pieces else 0
        context = self._context / len(self._decoding) if decoding else 0.0
        running, waiting = len(self._decoding) + len(self._prefilling), len(self._waiting)
        steps = 1
        if pieces:
            parts = [PromptPiece(tokens, served.cached) for served, tokens in pieces]
            seconds = self.times.mixed_s(decoding, context, parts)
        else:
            # what gave way is looked at again in the next pass
            steps = 1 if gave_way else self._steps_alike(decoding, context)
            seconds = self._steps_s(decoding, context, steps)
        self.now += seconds
        self.over_time.add(seconds, running, waiting, self._pages)
        if decoding:
            self._decode(steps, seconds)
        else:
            self._stalled += seconds
        for served, tokens in pieces:
            self._prefilled(served, tokens)

    def _steps_s(self, decoding: int, context: float, steps: int) -> float:
        """Seconds of so many steps alike, whose context grows by a token in each."""
        return steps * self.times.tokens_s(decoding, context + (steps - 1) / 2)

    def _steps_alike(self, decoding: int, context: float) -> int:
        """Steps of tokens alone until one ends, a request arrives, or the cache is full."""
        most = self._next_end() - self._steps
        if self._waiting and self.scheduler.reserves == "share":
            most = min(most, LOOKS)
        most = self._within(self.room.pages - self._pages, most)
        until = self.clients.next_s - self.now
        if until == inf or self._steps_s(decoding, context, most) < until:
            return most
        low, high = 0, most  # the first number of steps that does not end before the arrival
        while high - low > 1:
            middle = (low + high) // 2
            is_before = self._steps_s(decoding, context, middle) < until
            low, high = (middle, high) if is_before else (low, middle)
        return high

    def _next_end(self) -> int:
        while True:
            step, _, served = self._last[0]
            if served in self._decoding and served.last_step == step:
                return step
            heappop(self._last)

    # pages

    def _pages_of(self, served: Served, tokens: int) -> float:
        """Pages of a sequence's own tokens: those of a shared prefix are held once for all."""
        return self.room.of(tokens - served.request.cached)

    @property
    def _grows(self) -> bool:
        """Whether sequences take pages as they grow; else they hold all from the first pass on."""
        return self.scheduler.reserves != "all"

    def _within(self, free: float, most: int) -> int:
        """Steps for which the pages suffice, of at most so many; 0 where there is none for the next."""
        page, decoding, steps = self.room.page, len(self._decoding), 0
        if not self._grows:
            return most
        if decoding and free < inf:
            rounds = min(int(free // decoding), most // page)
            steps, free = rounds * page, free - rounds * decoding
        else:
            return most
        while steps < most and self._phases[-(self._steps + steps) % page] <= free:
            free -= self._phases[-(self._steps + steps) % page]
            steps += 1
        return steps

    def _make_room(self) -> bool:
        """Sequences give way, the last first, until each other one has a page for its next token."""
        gave_way = False
        ahead = 1
        while self._decoding and not self._within(self.room.pages - self._pages + ROUNDING, ahead) >= ahead:
            gave_way, ahead = True, self.scheduler.ahead
            self._give_way()
        if gave_way and self.scheduler.reserves == "share" and self._decoding:
            generated = sum(it.generated + self._steps for it in self._decoding)
            wanted = sum(it.request.new for it in self._decoding)
            self._share = min(1.0, (generated + self.scheduler.ahead * len(self._decoding)) / wanted)
        return gave_way

    def _give_way(self) -> None:
        """The sequence admitted last is computed anew later, with the tokens that it generated."""
        served = next(reversed(self._prefilling or self._decoding))
        if served in self._prefilling:
            del self._prefilling[served]
        else:
            self._leaves(served)
            served.generated += self._steps
        self._pages -= served.held
        served.held, served.cached, served.is_received = 0.0, served.request.cached, False
        served.goal = served.request.prompt + served.generated
        self.preemptions += 1
        self._waiting.appendleft(served)

    # prompts

    def _prompts(self, *, admits: bool) -> list[tuple[Served, int]]:
        """Pieces of prompts of the next pass, of requests that run and of those that are admitted."""
        scheduler, pieces, reserved = self.scheduler, list[tuple[Served, int]](), 0
        budget, piece = scheduler.pass_tokens or 1 << 62, scheduler.piece or 1 << 62
        if scheduler.mixes and not scheduler.in_turn:
            budget -= len(self._decoding)
        for served in self._prefilling:
            tokens = min(served.left, budget, piece)
            if tokens <= 0:
                break
            pieces.append((served, tokens))
            budget -= tokens
        while admits and self._waiting and budget > 0 and self._has_place():
            served = self._waiting[0]
            if served.is_received:
                if not self._admits(served, reserved):
                    break
                self._admit(served)
                self._prefilled(served, served.left)
                continue
            tokens = min(served.left, budget, piece) if scheduler.cuts else served.left
            # a prompt that is not cut and longer than what is left of a pass has one without others
            if (tokens > budget and pieces) or not self._admits(served, reserved):
                break
            self._admit(served)
            reserved += served.left + self._coming(served)
            pieces.append((served, tokens))
            budget -= tokens
        return pieces

    def _has_place(self) -> bool:
        prefilling, most = len(self._prefilling), self.scheduler.max_sequences
        if prefilling >= (self.scheduler.prompts or inf):
            return False
        return most is None or len(self._decoding) + prefilling < most

    def _admits(self, served: Served, reserved: int) -> bool:
        """Whether the scheduler has room for a request."""
        scheduler, pages = self.scheduler, self.room.pages
        if not (self._decoding or self._prefilling):
            return True  # alone it fits
        if scheduler.reserves == "share":
            to_come = self._to_come - self._steps * len(self._decoding)
            free = (pages - self._pages) * self.room.page - self._share * to_come - reserved
            return served.left + self._coming(served) < free
        # sequences that run take their pages first
        taken = self._pages + (self._phases[-self._steps % self.room.page] if scheduler.mixes else 0)
        return self._first_pages(served) <= pages * (1 - scheduler.watermark) - taken + ROUNDING

    def _coming(self, served: Served) -> int:
        """Tokens to come for which a request must find room, where a share of others' is reserved."""
        coming = served.request.new - served.generated
        return min(coming, self.scheduler.clip or coming)

    def _first_pages(self, served: Served) -> float:
        tokens = served.goal if self._grows else served.request.prompt + served.request.new
        return self._pages_of(served, tokens)

    def _admit(self, served: Served) -> None:
        self._waiting.popleft()
        served.held = self._first_pages(served)
        self._pages += served.held
        self._prefilling[served] = None

    def _prefilled(self, served: Served, tokens: int) -> None:
        """A piece of a prompt is cached; the last one makes a token."""
        served.cached += tokens
        if served.left:
            return
        del self._prefilling[served]
        served.generated += 1
        served.first_s = served.first_s or self.now
        if served.generated == served.request.new:
            self._ends(served)
        else:
            self._joins(served)

    # tokens

    def _joins(self, served: Served) -> None:
        """A sequence decodes from now on; its generated tokens are counted from the server's steps."""
        served.last_step = self._steps + served.request.new - served.generated
        served.generated -= self._steps
        self._decoding[served] = None
        heappush(self._last, (served.last_step, next(self._order), served))
        self._context += served.cached
        self._to_come += served.last_step
        self._phases[(served.cached - served.request.cached - self._steps) % self.room.page] += 1
        served.cached -= self._steps

    def _leaves(self, served: Served) -> None:
        del self._decoding[served]
        self._context -= served.cached + self._steps
        self._to_come -= served.last_step
        self._phases[(served.cached - served.request.cached) % self.room.page] -= 1
        if self._grows:
            served.held = self._pages_of(served, served.cached + self._steps)

    def _decode(self, steps: int, seconds: float) -> None:
        """Each sequence makes so many tokens."""
        decoding, page = len(self._decoding), self.room.page
        if self._grows:
            rounds, rest = divmod(steps, page)
            self._pages += rounds * decoding
            self._pages += sum(self._phases[-(self._steps + step) % page] for step in range(rest))
        self.gaps.append((seconds / steps + self._stalled, decoding))
        if steps > 1:
            self.gaps.append((seconds / steps, decoding * (steps - 1)))
        self._stalled = 0.0
        self._steps += steps
        self._context += steps * decoding
        first, least, within = self.scheduler.share
        self._share = max(least, self._share - steps * (first - least) / within)
        while self._last and self._last[0][0] <= self._steps:
            step, _, served = heappop(self._last)
            if served in self._decoding and served.last_step == step:
                self._leaves(served)
                self._ends(served)

    def _ends(self, served: Served) -> None:
        self._pages -= served.held
        served.end_s = self.now
        self.ended.append(served)
        self.clients.ended(self.now)


def too_long(request: LoadRequest, room: CacheRoom) -> ArchError:
    """The error of a request whose tokens are more than the cache holds."""
    tokens = request.prompt + request.new
    holds = int(room.pages * room.page)
    what = f"a request of {tokens:,} tokens does not fit into the cache, which holds {holds:,}"
    return ArchError(what, "shorter prompts or outputs, more devices, or --kv-dtype fp8")
