"""A choice of `archcli fit`: a model in a format on a device, its longest context and its speed.

Bytes are those of `archcli memory --phase serve`, speeds those of `archcli predict --phase decode`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from functools import cached_property
from typing import Any

from archcli.errors import ArchError
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.wings.serving.api.engine import check_runs
from archcli.wings.serving.api.fitting.fit_question import FitQuestion
from archcli.wings.serving.api.fitting.forms import (
    format_of,
    has_bits,
)
from archcli.wings.serving.memory.answers.fit import narrowed, usual_plan, usual_plans
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.answers.verdict import Verdict, verdict_of
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
