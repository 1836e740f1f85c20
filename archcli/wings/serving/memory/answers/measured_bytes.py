"""Measured bytes beside the count: what would explain the gap, and what is not explained.

That a line could explain a gap does not say that it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.measure.passes import GROWING, cache_pass, shape_pass
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules.stored.formats import FP8_OF_LATENTS
from archcli.units import binary_bytes
from archcli.wings.serving.memory.answers.question import MemoryAnswer, MemoryQuestion
from archcli.wings.serving.memory.answers.verdict import margin_bytes, margin_in_words
from archcli.wings.serving.memory.plan import n_stacked_layers

Record = dict[str, Any]
Line = tuple[str, int]
LEFT = {
    "weights": "towers that the description leaves out, padding, what a checkpoint has beside",
    "cache": "pages of layers of different kinds, made alike; blocks that the engine keeps for itself",
    "all": "other programs, what a framework caches",
}
"""What may be measured, parts of the peak or all that a process takes; and what no count tells of it."""
CLOSE, LEAST = 1.1, 0.1
"""A line of more than 1.1 times the gap does not explain it, and one of less than a tenth not much."""


def measured_record(question: MemoryQuestion, part: str, size: int) -> Record:
    """The gap, lines that would explain it, the closest first, and the rest, by JSON's keys."""
    answer = question.answer()
    counted = answer.needed_bytes if part == "all" else int(answer.largest.peak.parts[part])
    gap = size - counted
    lines = {
        "weights": lambda: _of_weights(question, counted),
        "cache": lambda: _of_cache(question, counted),
        "all": lambda: _of_all(question, answer, size),
    }
    by_size = {more: what for what, more in lines[part]() if LEAST * gap < more <= CLOSE * gap}
    fitting = sorted(by_size.items(), key=lambda line: abs(gap - line[0])) if gap > 0 else []
    return {
        "part": part,
        "bytes": size,
        "counted_bytes": counted,
        "gap_bytes": gap,
        "explained": [{"what": what, "bytes": more} for more, what in fitting],
        "rest_bytes": gap - (fitting[0][0] if fitting else 0),
    }


def _of_weights(question: MemoryQuestion, counted: int) -> Iterator[Line]:
    """One layer more, of a rank's share of the weights."""
    rows, dtype = shape_pass(question.model).rows, question.settings.dtype
    of_layers = weight_bytes(question.model, [row for row in rows if row.path.startswith("layers")], dtype)
    share = counted * of_layers / weight_bytes(question.model, rows, dtype)
    yield "one more layer, as of a draft (MTP)", int(share / n_stacked_layers(question.model))


def _of_cache(question: MemoryQuestion, counted: int) -> Iterator[Line]:
    """Other types of cache, and the cache of one more layer."""
    dtypes = (question.settings.engine or NO_ENGINE).cache_dtypes
    for dtype in (dtype for dtype in reversed(dtypes) if dtype != FP8_OF_LATENTS):
        cache = question.changed(cache_dtype=dtype).answer().largest.peak.cache
        yield f"a cache in {dtype}", int(cache) - counted
    rows = cache_pass(question.model, question.settings.request(question.model)).rows
    growing = [row for row in rows if any(state.kind in GROWING for state in row.states)]
    # keys and values are rows of one layer
    layers = sum({row.path.rpartition(".")[0]: int(row.copies) for row in growing}.values())
    if layers:
        constant = int(question.changed(seq_len=1).answer().largest.peak.cache)
        yield "one more layer of attention, as of a draft (MTP)", (counted - constant) // layers


def _of_all(question: MemoryQuestion, answer: MemoryAnswer, size: int) -> Iterator[Line]:
    """What an engine takes of a device whatever it needs, and what was seen beyond the count."""
    yield f"{margin_in_words(question)}, at most", margin_bytes(question, answer)
    if question.device is not None and question.settings.served:
        pool = min(question.device.memory_bytes, size) - answer.needed_bytes
        title = (question.settings.engine or NO_ENGINE).title
        yield f"the pool of the cache, as {title} takes its share of a device whole", pool


def measured_lines(record: Record) -> Iterator[str]:
    """The gap, what would explain it, and what is not explained, in sentences."""
    part, gap = ("" if record["part"] == "all" else f" of {record['part']}"), record["gap_bytes"]
    share = f"{abs(gap) / max(record['counted_bytes'], 1):.1%} {'more' if gap >= 0 else 'less'} than counted"
    sizes = [binary_bytes(number) for number in (record["bytes"], record["counted_bytes"], abs(gap))]
    yield f"{sizes[0]}{part} measured, {sizes[1]} counted: {sizes[2]}, {share}."
    for line in record["explained"]:
        yield f"Would explain {binary_bytes(line['bytes'])}: {line['what']}."
    if (rest := record["rest_bytes"]) > 0:
        yield f"Not explained: {binary_bytes(rest)}: {LEFT[record['part']]} may be it."
