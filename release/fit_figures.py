"""What `archcli fit` need not count anew: bytes of presets by format, and lines of all else by context.

usage: python release/fit_figures.py [--presets NAME ...]

Writes archcli/wings/serving/load/figures.json. A line is kept where it holds at all contexts that are
tried, of a cache in pages of many tokens as one of pages.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.load.presets import preset_records
from archcli.measure.kvcache.cache_size import CacheDtypes, CacheSize
from archcli.measure.kvcache.held import pool_of
from archcli.measure.survey.columns import COLUMNS
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.wings.serving.api.fitting.figures import recorded_of
from archcli.wings.serving.api.fitting.question import FitOptions
from archcli.wings.serving.load.figures import FILE
from archcli.wings.serving.memory.answers.changes import formats_by_bytes, whole_bytes
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.inference import in_ram_bytes, tables_params, weight_rows
from archcli.wings.serving.memory.parts.beside import SizeLine, digest, format_name
from archcli.wings.serving.memory.ranks import workspace_bytes

ASKED = {
    "llamacpp": ("rtx-3090",),
    "vllm": ("rtx-3090", "h100-sxm"),
}
"""Devices by engine: of vLLM one for each size of a chunk."""
FORMATS = ("bf16", "q4_k_m", "awq-int4", "mlx-4bit", None)
WANTED = (512, 2048, 8192, 32768)
MOST_LINES = 24
TRIED = 5
"""Contexts of a line that must lie on it, both ends among them."""
AT_RANDOM = 8
FEW = 256
"""Contexts that are recorded one by one where they are on no lines."""


class TooManyError(Exception):
    """There are more lines than are worth a place."""


def names() -> list[str]:
    """The presets that `fit --device` lists."""
    records = preset_records(COLUMNS)
    return [record["name"] for record in records if record["kind"] != "encoder" and not record["media"]]


def figures_of(name: str, engines: Iterable[str] = ASKED) -> dict[str, Any]:
    """The record of a preset, as `KnownBytes` takes it."""
    record: dict[str, Any] = {"weights": {}, "in_ram": {}, "tables": 0, "served": {}}
    for engine in engines:
        for i, device in enumerate(ASKED[engine]):
            question = first_question(name, engine, device)
            if question is None:
                continue
            record["tables"] = tables_params(question.traced)
            for form, stored in forms(question) if not i else ():
                whole = record["weights"][form] = whole_bytes(stored)
                table = in_ram_bytes(stored.model, stored.settings, stored.traced)
                # of one with layers that predict further tokens, which inference leaves out
                if held(stored) == whole:
                    record["in_ram"][form] = max(table, record["in_ram"].get(form, 0))
            record["served"].update(lines_of(question))
    return record


def held(question: MemoryQuestion) -> int:
    """Bytes of the weights that inference needs."""
    model = question.traced.inferring
    return weight_bytes(model, weight_rows(model, question.traced), question.settings.dtype)


def first_question(name: str, engine: str, device: str) -> MemoryQuestion | None:
    """The question of memory in the first format that the engine reads."""
    fit = FitOptions(model=name, device=device, engine=engine).question(given(name))
    fit.passes.figures = None  # counted anew
    for dtype in FORMATS:
        try:
            return fit.memory(dtype=dtype, seq_len=min(WANTED[2], fit.longest))
        except ArchError:
            continue
    return None


def forms(question: MemoryQuestion) -> Iterator[tuple[str, MemoryQuestion]]:
    """(format, question) of each format that the model can be stored in, and of that which it has."""
    for _, form, stored in formats_by_bytes(question):
        yield form, replace(stored, settings=replace(stored.settings, engine=question.settings.engine))
    again = question.again
    for dtype in (None, "bf16", "fp16"):
        try:
            stored = question if again is None else again(dtype=dtype)
        except ArchError:
            continue
        yield format_name(stored.model, stored.settings.dtype), stored


def lines_of(question: MemoryQuestion) -> dict[str, Any]:
    """The lines of a question's settings; points alone where there are too many or one does not hold."""
    settings, model, device = question.settings, question.model, question.device
    block, chunk = settings.engine.cache_block, settings.chunk or 0
    longest = model.max_seq_len or WANTED[-1]
    weights = question.answer().largest.peak.weights
    workspace = workspace_bytes(device.architecture)
    beyond: set[int] = set()

    def size(tokens: int) -> int:
        needed = question.changed(seq_len=tokens).needed()
        beyond.add(needed.needed_bytes - needed.peak_bytes - workspace)
        return needed.peak_bytes - weights

    first, last, step = chunk // block + 1, -(-longest // block), page_of(question) or block
    points = points_of(model.name, longest, (block, step), (first, last))
    # both ends first: contexts between them mostly take no pass of their own
    ends = [last * block, first * block] if first <= last else []
    sizes = {tokens: size(tokens) for tokens in (*ends, *sorted(points))}
    most = last * block
    low, high = -(-first * block // step), -(-most // step)
    try:
        grid = (
            [*straight(lambda n: size(min(n * step, most)), low, high, [MOST_LINES])] if low <= high else []
        )
    except TooManyError:
        grid = []
        if last - first < FEW:
            sizes |= {n * block: size(n * block) for n in range(first, last + 1)}
    of_pages = () if step == block else (block,)
    lines = [
        [low * step, min(high * step, most), step, *rest[:3], *of_pages]
        for low, high, _, *rest in merged(grid)
    ]
    if any(on(lines, tokens) not in {None, bytes_at} for tokens, bytes_at in sizes.items()):
        lines = []
    lines += [[tokens, tokens, 1, bytes_at, 0] for tokens, bytes_at in sizes.items() if not on(lines, tokens)]
    return {digest(settings): [beyond.pop(), lines]} if len(beyond) == 1 else {}


def points_of(name: str, longest: int, steps: tuple[int, int], blocks: tuple[int, int]) -> set[int]:
    """The contexts to try, some at random, and of a cache in pages where these begin."""
    (block, page), (first, last) = steps, blocks
    points = {min(tokens, longest) for tokens in WANTED} | {block, longest}
    draw = Random(name)  # noqa: S311 - the same contexts in every run
    points |= {block * draw.randint(first, last) for _ in range(AT_RANDOM) if first <= last}
    if page == block:
        return points
    starts = {tokens // page * page for tokens in points}
    return points | {n for start in starts for n in (start, start + block) if block <= n <= longest}


def page_of(question: MemoryQuestion) -> int | None:
    """The tokens of a page of a cache that lies in pages of one size; None without such a cache."""
    settings, known = question.settings, question.traced
    dtypes = CacheDtypes(settings.cache_dtype or settings.dtype)
    pool = pool_of(CacheSize(known.inferring), dtypes, settings.engine)
    pages = set() if pool is None else {group.block for group in pool.groups if group.block}
    return pages.pop() if len(pages) == 1 else None


def on(lines: list[list[int]], tokens: int) -> int | None:
    """The bytes of the first line that has a context."""
    sizes = (SizeLine(*line).at(tokens) for line in lines)
    return next((size for size in sizes if size is not None), None)


def straight(size: Callable[[int], int], low: int, high: int, room: list[int]) -> Iterator[SizeLine]:
    """Cut the numbers from low to high into pieces on which the size is a line, or bends evenly."""
    at_low, at_next, at_third = (size(min(low + i, high)) for i in range(3))
    more = at_next - at_low
    line = SizeLine(low, high, 1, at_low, more, at_third - at_next - more if high > low + 1 else 0)
    inside = {low + (high - low) * i // (TRIED - 1) for i in range(TRIED)}
    if all(size(n) == line.at(n) for n in sorted(inside)):
        yield line
        return
    room[0] -= 1
    if room[0] < 0:
        raise TooManyError
    middle = (low + high) // 2
    yield from straight(size, low, middle, room)
    yield from straight(size, middle + 1, high, room)


def merged(pieces: list[SizeLine]) -> list[SizeLine]:
    """The pieces, those that go on with the line before joined to it."""
    lines: list[SizeLine] = []
    for piece in pieces:
        before = lines[-1]._replace(last=piece.last) if lines else piece
        if lines and all(before.at(n) == piece.at(n) for n in {piece.first, piece.last, piece.first + 1}):
            lines[-1] = before
        elif lines and before.first == lines[-1].last and before.more == 0 and not before.bend:
            # a single number, which may begin any line
            longer = before._replace(more=piece.bytes - before.bytes)
            goes_on = all(longer.at(n) == piece.at(n) for n in {piece.first, piece.last})
            lines[-1:] = [longer] if goes_on else [lines[-1], piece]
        else:
            lines.append(piece)
    return lines


def main() -> int:
    """Write the file, all of it or some presets of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--presets", nargs="*", default=None, help="these alone, beside what is there")
    chosen = parser.parse_args().presets
    known = {} if chosen is None else {name: vars(recorded_of(name)) for name in names()}
    for name in names() if chosen is None else chosen:
        known[name] = figures_of(name)
        print(name, len(known[name]["served"]), file=sys.stderr)
    write(known)
    return 0


def write(known: dict[str, dict[str, Any]]) -> None:
    """Write the records, a preset a line."""
    forms = sorted({form for record in known.values() for form in record["weights"]})
    columns = ("weights", "in_ram")
    lines = [
        f"{text(name)}:{text(record | {key: [record[key].get(form) for form in forms] for key in columns})}"
        for name, record in sorted(known.items())
    ]
    FILE.write_text(f'{{"formats":{text(forms)},\n"presets":{{\n' + ",\n".join(lines) + "\n}}\n")


def text(value: Any) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main())
