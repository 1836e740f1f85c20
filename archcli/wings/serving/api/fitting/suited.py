"""The presets that suit a machine: of each series the largest recent one that runs at a usable speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from archcli.errors import ArchError
from archcli.load.presets import preset_records
from archcli.wings.serving.api.fitting.choice import AT, UNKNOWN, Record
from archcli.wings.serving.api.fitting.formats import Formats
from archcli.wings.serving.api.fitting.forms import BYTE, has_bits
from archcli.wings.serving.api.fitting.listing import Entry, Tick
from archcli.wings.serving.api.fitting.question import FitOptions, list_question, question_of
from archcli.wings.serving.api.known_device.known import known_device
from archcli.wings.serving.api.known_device.machines import Machines
from archcli.wings.serving.devices.names import LOCAL
from archcli.wings.serving.memory.offload import HostMemory

USABLE = 5.0
"""Tokens a second, as people read: 238 words a minute (Brysbaert, 2019), of 1.3 tokens each."""
USUAL = HostMemory().bandwidth
SUITED = 5
YEARS = 2
"""Years before the newest preset in which a recent one came out."""


class Suited(NamedTuple):
    """Presets that suit a device.

    options: with the speed that all have. since: the year of the oldest. is_timed: whether rates are known.
    """

    entries: Sequence[Entry]
    options: FitOptions
    since: int
    is_timed: bool


def suited(options: FitOptions, tick: Tick) -> Suited:
    """The presets of the best known series, those of which archcli has most, that suit a device."""
    bandwidth = _bandwidth(options)
    speed = options.min_speed or (None if bandwidth is None else USABLE)
    fast = replace(options, min_speed=speed)
    records = [record for record in preset_records() if record["kind"] == "decoder" and not record["media"]]
    since = max(record["year"] for record in records) - YEARS
    names = Counter(record["series"] for record in records)
    recent = [
        [it for it in records if it["series"] == name and it["year"] >= since]
        for name, _ in names.most_common()
    ]
    # of a CPU whose rates nobody measured: what RAM of the usual rate reads as fast, in 8 bits
    read = USUAL / BYTE if bandwidth is None else bandwidth / options.min_bits
    most = BYTE * read / (speed or USABLE)
    entries = [*islice(filter(None, (_largest(alike, fast, most, tick) for alike in recent)), SUITED)]
    if not entries and options.min_speed is None:
        fast, named = options, [min(alike, key=_active) for alike in filter(None, recent)]
        entries = [_entry(record, fast) for record in named[:SUITED]]
    return Suited(entries, fast, since, bandwidth is not None)


def _largest(alike: Sequence[Record], options: FitOptions, most: float, tick: Tick) -> Entry | None:
    """The largest preset that reaches the speed, of those with at most so many active parameters.

    Of about the same size it is the newest, by its plainest name.
    """
    room = list_question(options, "presets").total_bytes
    for record in sorted(alike, key=_rank, reverse=True):
        entry = _entry(record, options)
        if entry.least_bytes > room or _active(record) > most:
            continue
        tick(entry.name, 0, 0)
        with suppress(ArchError):
            formats = Formats(entry.question())
            best = formats.best() if _may_reach(formats) else None
            if best is not None and has_bits(best.format, options.min_bits):
                return entry
    return None


def _may_reach(formats: Formats) -> bool:
    """Whether the smallest format that has enough bits reaches the speed: one prediction in place of all."""
    fit = formats.fit
    names = [name for _, name in reversed(formats.by_bytes) if has_bits(name, fit.min_bits)]
    least = next(filter(None, map(formats.choice, names)), formats.first)
    rates = least.predicted(min(AT, fit.longest)).get("tokens_per_s", UNKNOWN)
    return fit.min_speed is None or (rates["expected"] or rates["floor"] or 0) >= fit.min_speed


def _active(record: Record) -> int:
    """Parameters that a token reads, without those of the embedding table."""
    active: int = record["active_params"] - record["vocab_size"] * record["d_model"]
    return active


def _rank(record: Record) -> tuple[float, str, int]:
    return float(f"{record['params']:.2g}"), record["released"], -len(record["name"])


def _entry(record: Record, options: FitOptions) -> Entry:
    name, size = record["name"], record["params"]
    least = size * options.min_bits / BYTE
    return Entry(name, least, question_of(options, name), record["max_seq_len"], {"params": size})


def _bandwidth(options: FitOptions) -> float | None:
    """Bytes a second of all devices; None where nobody measured them."""
    with suppress(ArchError):
        known = known_device(options.device or LOCAL, machines=Machines.of(options.nodes))
        return known.memory.n_devices * known.timed.timing.clock.rates.bandwidth
    return None
