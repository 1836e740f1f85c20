"""The formats of a model on a device, as `archcli fit` chooses among them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import product
from typing import Any

from archcli.errors import ArchError, UnknownFormError
from archcli.wings.serving.api.engine import as_converted
from archcli.wings.serving.api.fitting.choice import NO_OFFLOAD, Choice
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
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.inference import in_ram_bytes, tables_params

Record = dict[str, Any]


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
