"""A choice of `archcli fit`: a model in a format on a device, its longest context and its speed.

Bytes are those of `archcli memory --phase serve`, speeds those of `archcli predict --phase decode`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

from archcli.errors import ArchError, UnknownFormError
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.wings.serving.api.engine import as_converted, check_runs
from archcli.wings.serving.api.fitting.fit_question import FitQuestion
from archcli.wings.serving.api.fitting.forms import (
    NEAR,
    PUBLISHED,
    RIVALS,
    WIDEST,
    format_of,
    has_bits,
    is_narrow,
    is_published,
)
from archcli.wings.serving.memory.answers.changes import RARE, sizes_of_formats, whole_bytes
from archcli.wings.serving.memory.answers.fit import narrowed, usual_plan, usual_plans
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.answers.verdict import Verdict, verdict_of
from archcli.wings.serving.memory.inference import in_ram_bytes, tables_params
from archcli.wings.serving.memory.plan import DeviceMemory, Plan
from archcli.wings.serving.predict.answers.costs import energy_record

Record = dict[str, Any]
AT = 2048
"""Tokens in the cache at which the speed is given, unless the longest context is shorter."""


class Choice:
    """A model in a format on a device: its longest context and its speed, each computed once."""

    def __init__(self, fit: FitQuestion, dtype: str | None, **options: Any) -> None:
        """Ask with a format, and with further options; ArchError where no engine reads it."""
        self.fit, self.dtype, self.options = fit, dtype, options
        self.question = fit.memory(dtype=dtype, seq_len=fit.wanted[0], **options)
        self.engine = self.question.settings.engine or NO_ENGINE
        self._lacking, self._at = dict[int, int](), dict[int, MemoryQuestion]()
        self._by_plan = dict[Plan, MemoryQuestion]()
        if fit.dtype is None or options:  # what is stated is counted, with a note
            check_runs(self.engine, self.question.model, options.get("kv_dtype"), self.question.device)

    @cached_property
    def format(self) -> str:
        """The format, as --dtype takes it."""
        return format_of(self.question)

    @property
    def offload(self) -> str | None:
        """What is left in RAM, as --offload takes it."""
        offload = self.question.settings.offload
        return None if offload is None else offload.text

    @property
    def has_bits(self) -> bool:
        """Whether the format has as many bits a weight as are wanted; one that is named has."""
        return self.fit.dtype is not None or has_bits(self.format, self.fit.min_bits)

    @property
    def device(self) -> DeviceMemory:
        """The devices, with what the engine takes of each."""
        device = self.question.device
        if device is None:
            raise ArchError("fit needs a device to fit into", "--device rtx-4090")
        return device

    @cached_property
    def _only_plan(self) -> Plan | None:
        """The plan at any context; None where bytes decide between several."""
        n_devices = self.device.n_devices
        plans = [self.question.plan] if n_devices == 1 else usual_plans(self.question, n_devices)
        return plans[0] if len(plans) == 1 else None

    def plan_at(self, tokens: int) -> Plan:
        """The plan at a context: several devices share the model by the usual one."""
        if self._only_plan is not None:
            return self._only_plan
        return usual_plan(self.question.changed(seq_len=tokens), self.device.n_devices)

    def _planned(self, tokens: int) -> MemoryQuestion:
        """The question, asked at whatever context, with the plan at this one."""
        if tokens not in self._at:
            plan = self.plan_at(tokens)
            if plan not in self._by_plan:
                same = plan == self.question.plan
                self._by_plan[plan] = self.question if same else replace(self.question, plan=plan)
            self._at[tokens] = self._by_plan[plan]
        return self._at[tokens]

    def at(self, tokens: int) -> MemoryQuestion:
        """The question at a context."""
        planned = self._planned(tokens)
        return planned if planned.settings.seq_len == tokens else planned.changed(seq_len=tokens)

    def lacking(self, tokens: int) -> int:
        """Bytes that are missing on a device or in RAM for a context; 0 or less where it fits."""
        if tokens not in self._lacking:
            self._lacking[tokens] = self._planned(tokens).lacking(tokens)
        return self._lacking[tokens]

    def holds(self, tokens: int, margin: int = 0) -> bool:
        """Whether a context of so many tokens fits, with so many bytes left."""
        return self.lacking(tokens) + margin <= 0

    @cached_property
    def _promised(self) -> int:
        """The most tokens of those wanted that fit."""
        return next(filter(self.holds, self.fit.wanted), self.fit.wanted[-1])

    @property
    def promised(self) -> MemoryQuestion:
        """The question at the most tokens of those wanted that fit."""
        return self.at(self._promised)

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict on the most tokens of those wanted that fit."""
        planned = self._planned(self._promised)
        return verdict_of(planned, planned.needed(self._promised))

    @cached_property
    def context(self) -> int | None:
        """The longest context that fits, in whole blocks of the engine's cache; None where none fits."""
        return self.longest()

    @cached_property
    def sure_context(self) -> int | None:
        """The longest context that fits beside what the engine was seen to take beyond the count."""
        return self.longest(self.engine.margin) if self.engine.margin else self.context

    def longest(self, margin: int = 0) -> int | None:
        """The longest context that fits with so many bytes left; None where none does."""
        block, longest = self.engine.cache_block, self.fit.longest
        if self.holds(longest, margin):
            return longest
        # begin at a context that fits: often --context does, and bytes grow more evenly from there on
        known = (tokens // block for tokens in (*self.fit.wanted, block))
        least = next((n for n in known if n and self.holds(n * block, margin)), None)
        if least is None:
            return None
        return block * self._most_blocks(least, -(-longest // block), margin)

    def _most_blocks(self, least: int, most: int, margin: int) -> int:
        """The most blocks of the engine's cache that fit, where `least` do and `most` do not.

        They are searched for with the plan of the most: bytes jump where another plan takes over.
        """
        block, question = self.engine.cache_block, self._planned(self.fit.longest)

        def lacking(n: int) -> int:
            return question.lacking(n * block) + margin

        blocks = least
        if lacking(least) <= 0:
            # begin between the contexts that are counted already
            counted = [n for n, rest in (divmod(it, block) for it in question.counted()) if not rest]
            counted = [least, *(n for n in counted if least < n < most), most]
            ends = bisect_left(counted, 1, 1, len(counted) - 1, key=lambda n: lacking(n) > 0)
            blocks = narrowed(lacking, counted[ends - 1], counted[ends])
        if blocks + 1 < most and self.holds((blocks + 1) * block, margin):
            return narrowed(lambda n: self.lacking(n * block) + margin, blocks + 1, most)
        return blocks

    @cached_property
    def peak_bytes(self) -> int:
        """Peak bytes of the largest rank at the longest context; at the least wanted where none fits."""
        tokens = self.context or self.fit.wanted[-1]
        return self._planned(tokens).needed(tokens).peak_bytes

    def predicted(self, tokens: int) -> Record:
        """Rates, energy and origin of decoding one token behind a context; empty where no rates are known."""
        options = {**self.options, "engine": self.engine.name}
        if self.offload is not None:
            options["offload"] = self.offload
        try:
            question = self.fit.predict(dtype=self.dtype, seq_len=tokens, **options)
            question = replace(question, plan=self.plan_at(tokens))
            answer = question.answer()
        except ArchError:
            return {}
        rates, origin = answer.prediction.tokens_per_s, answer.prediction.origin
        return {"tokens_per_s": rates, "energy": energy_record(question, answer), "origin": origin}

    @property
    def speed_at(self) -> int:
        """Tokens in the cache at which the speed is given: --context, else 2048."""
        usual = self.fit.context or AT
        if not usual % self.engine.cache_block and usual <= self.fit.longest and self.holds(usual):
            return usual  # the longest context is no shorter
        return min(usual, self.context or AT)

    @cached_property
    def speed(self) -> Record:
        """The prediction with `speed_at` tokens."""
        return self.predicted(self.speed_at)

    @property
    def tokens_per_s(self) -> Record:
        """Decoded tokens of all sequences a second: floor, expected, low and high; None where unknown."""
        rates: Record = self.speed.get("tokens_per_s", UNKNOWN)
        return rates

    @property
    def rate(self) -> float:
        """Tokens a second as expected, or at most; 0 where nothing is known."""
        return self.tokens_per_s["expected"] or self.tokens_per_s["floor"] or 0.0

    def record(self) -> Record:
        """The choice by JSON's keys."""
        return {
            "format": self.format,
            "context": self.context,
            "tokens_per_s": self.tokens_per_s,
            "peak_bytes": self.peak_bytes,
        }


UNKNOWN: Record = dict.fromkeys(("floor", "expected", "low", "high"))

NO_OFFLOAD = dict.fromkeys(("offload", "ram", "ram_bandwidth", "bus_bandwidth"))
"""The options of an offload, left out."""


class Formats:
    """The formats of a model, the largest first: --dtype's or the published one, then smaller ones."""

    def __init__(self, fit: FitQuestion) -> None:
        self.fit = fit
        self._choices: dict[str, Choice | None] = {}
        self.first = self._first()
        self._choices[self.first.format] = self.first

    def _first(self) -> Choice:
        """The format of --dtype, else the published one, else the largest that the engine reads."""
        try:
            return Choice(self.fit, self.fit.dtype)
        except ArchError:
            # too large even with an offload: measure what is missing without one
            without: list[Record] = [NO_OFFLOAD] if self.fit.ram_bytes else []
            tries = [(self.fit.dtype or PUBLISHED, options) for options in without]
            if self.fit.dtype is None:
                # where the engine does not read the published form
                tries += [(name, options) for options in ({}, *without) for _, name in self.by_bytes]
            first = next(filter(None, (self._tried(*it) for it in tries)), None)
            if first is None:
                raise
            return first

    @cached_property
    def published(self) -> MemoryQuestion:
        """The model as the engine's files have it, else as published; in bf16 where that is unknown."""
        try:
            return self._published_as(None)
        except UnknownFormError:
            if self.fit.dtype is None:
                raise
            return self._published_as("bf16")

    def _published_as(self, dtype: str | None) -> MemoryQuestion:
        options = {"dtype": dtype, "seq_len": 1, "kv_dtype": None, **NO_OFFLOAD}
        with suppress(ArchError):  # of an engine that does not read it
            return self.fit.memory(**options)
        return self.fit.memory(**{**options, "engine": "none"})

    @cached_property
    def published_bytes(self) -> int:
        """Bytes of all weights as they are published."""
        return whole_bytes(self.published)

    @cached_property
    def by_bytes(self) -> list[tuple[int, str]]:
        """(bytes of all weights, format), the largest first, begun by the published one."""
        name = format_of(self.published)
        most = self.published_bytes * (1 - NEAR) if is_published(name) else self.published_bytes
        # gpt-oss in mxfp4: llama.cpp's files keep that of the experts
        usual = {self.fit.dtype, as_converted(self.published.model, "llamacpp").stored_as}
        smaller = [
            (size, name)
            for size, name in sizes_of_formats(self.published)
            if size < most and (name not in RARE or name in usual)
        ]
        return [(self.published_bytes, name), *smaller]

    def choice(self, name: str) -> Choice | None:
        """The choice of a format; None where no engine reads it."""
        if name not in self._choices:
            self._choices[name] = self._tried(name, {})
        return self._choices[name]

    def _tried(self, name: str, options: Record) -> Choice | None:
        with suppress(ArchError):
            choice = Choice(self.fit, None if is_published(name) else name, **options)
            named = is_published(name) or name == self.fit.dtype
            return choice if named or name not in choice.engine.unusual else None
        return None

    def _within(self, least: float, most: float) -> list[str]:
        """The formats between two numbers of bytes that may fit, the largest first."""
        # a format larger than device and RAM together needs no search for the layers to offload
        most = min(most, self._most_bytes)
        return [name for size, name in self.by_bytes if least < size < most]

    def _in_formats(self, names: Iterable[str]) -> Iterator[Choice]:
        """A choice for each format that an engine reads, built when it is iterated."""
        return filter(None, map(self.choice, names))

    @cached_property
    def _most_bytes(self) -> float:
        """The most bytes of weights that may fit: all devices, RAM, and tables that may stay in RAM."""
        device, known = self.first.device, self.published.traced
        figures = known.passes.figures
        params = tables_params(known) if figures is None else figures.tables
        # memory_bytes is the engine's part, rounded down to whole bytes: + 1 makes this an upper bound
        there = device.n_devices * (device.memory_bytes + 1) / device.utilization
        return there + self.fit.ram_bytes + params * WIDEST

    def best(self) -> Choice | None:
        """The largest format that holds the context at --min-speed; with --dtype that one, or None."""
        fit = self.fit
        if fit.dtype is not None:
            return next((self.first for tokens in fit.wanted if self.does(self.first, tokens)), None)
        is_first = self._is_usual(self.first) and self._holds_weights(self.first, self.published_bytes)
        if is_first and self.does(self.first, fit.longest):
            return self.first
        # what is packed already is taken as it is, though tight: people load no smaller form of it
        packed = self.first.question.model.is_as_published and self.first.question.model.quantization
        if packed and self.does(self.first, fit.wanted[0]):
            return self.first
        tries = product((True, False), (True, False), fit.wanted)
        enough = (
            it
            for is_wide, sure, tokens in tries
            for it in self._tier(is_wide=is_wide)
            if self.does(it, tokens, sure)
        )
        return next(enough, None)

    def _is_usual(self, choice: Choice) -> bool:
        """Whether people run a format on the device: with llama.cpp on a CPU none of more than 8 bits."""
        return not self.on_cpu or is_narrow(choice.format)

    @property
    def on_cpu(self) -> bool:
        """Whether llama.cpp runs the model on a CPU."""
        return self.first.device.family == "cpu" and self.first.engine.name == "llamacpp"

    def _tier(self, *, is_wide: bool) -> Iterator[Choice]:
        """The formats of so many bits as a first choice has, or those of fewer."""
        # a published form of fewer bits is no worse than what it was made of
        return (it for it in self._weighing() if is_wide == self._has_bits(it))

    def _has_bits(self, choice: Choice) -> bool:
        return choice is self.first or has_bits(choice.format, self.fit.min_bits)

    def rival(self, choice: Choice) -> Choice | None:
        """The best with the other engine that people run on a Mac; None elsewhere, and where one is asked."""
        fit, rival = self.fit, RIVALS.get(choice.engine.name)
        is_fixed = fit.engine is not None or fit.dtype is not None
        if is_fixed or rival is None or choice.device.family != "metal":
            return None
        with suppress(ArchError):
            return Formats(fit.by_engine(rival)).best()
        return None

    def does(self, choice: Choice, tokens: int, sure: bool = False) -> bool:
        """Whether a context fits, surely or by the count, at --min-speed or faster."""
        holds = choice.holds(tokens, choice.engine.margin if sure else 0)
        return holds and (self.fit.min_speed is None or choice.rate >= self.fit.min_speed)

    def _weighing(self) -> Iterator[Choice]:
        """The formats whose weights fit; no pass of any other is traced.

        On devices of servers those of the usual engine come first: few serve there with llama.cpp.
        """
        known = filter(self._may_fit, self._in_formats(self._within(0, math.inf)))
        if not (self.on_cpu or self.first.device.of_servers):
            return known
        name = self.first.engine.name
        return iter(sorted(known, key=lambda it: (not self._is_usual(it), it.engine.name != name)))

    def _may_fit(self, choice: Choice) -> bool:
        return self._holds_weights(choice, self._size(choice))

    def _holds_weights(self, choice: Choice, size: int) -> bool:
        there = choice.device.memory_bytes * choice.device.n_devices + self.fit.ram_bytes
        settings = choice.question.settings
        if size <= there:
            return True
        # llama.cpp leaves the embedding table in RAM: weights a little too large may fit without it
        in_ram = in_ram_bytes(choice.question.model, settings, choice.question.traced)
        return size - in_ram <= there

    def _size(self, choice: Choice) -> int:
        known = (size for size, name in self.by_bytes if name == choice.format)
        return next(known, None) or whole_bytes(choice.question)

    def better(self, choice: Choice) -> Choice | None:
        """The next larger format that fits."""
        larger = self._in_formats(reversed(self._within(self._size(choice), math.inf)))
        return next(filter(self._fits, self._of_same_engine(choice, larger)), None)

    def smaller(self, choice: Choice) -> Choice | None:
        """The next smaller format that fits."""
        fewer = self._in_formats(self._within(0, self._size(choice)))
        return next(filter(self._fits, self._of_same_engine(choice, fewer)), None)

    def _fits(self, choice: Choice) -> bool:
        """Whether a format holds the shortest context that is wanted."""
        return self._may_fit(choice) and choice.holds(self.fit.wanted[-1])

    def _of_same_engine(self, choice: Choice, others: Iterator[Choice]) -> Iterator[Choice]:
        """The choices with the same engine: between two of them only the format differs."""
        return (it for it in others if it.engine.name == choice.engine.name)

    def below(self, choice: Choice) -> Iterator[Choice]:
        """The smaller formats, the largest first."""
        return self._in_formats(self._within(0, self._size(choice)))

    def least(self) -> Choice:
        """The smallest format that an engine reads."""
        return next(self._in_formats(name for _, name in reversed(self.by_bytes)), self.first)

    def fitting(self) -> Iterator[Choice]:
        """All formats that fit, the largest first."""
        return filter(self._fits, self._weighing())
