"""Which rows of the database a series takes, and which multiples of fp32 its maker states.

A line of a table is a row's name; `= name` where ours is another than `slug` makes, `| key: value` what the
row lacks or has otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from datasheet_tables.amd import AMD
from datasheet_tables.intel import INTEL
from datasheet_tables.jetson import JETSON
from datasheet_tables.nvidia import NVIDIA

MAKERS = ("geforce ", "quadro ", "radeon instinct ", "radeon pro ", "radeon ", "tesla ")
OF_QUADRO = ("rtx", "gv", "gp")


class Series(NamedTuple):
    """A file: what its variants share, the multiples of fp32, and its table.

    estimated: keys that no document states. cache: whether the row's L2 is the last one.
    """

    file: str
    vendor: str
    architecture: str
    document: str
    multiples: Mapping[str, float]
    table: str
    head: Mapping[str, str] = {}
    estimated: tuple[str, ...] = ()
    cache: bool = True

    def rows(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Our name, the row's name, and keys of its own."""
        for line in self.table.strip().splitlines():
            before, _, after = line.partition("|")
            row, _, name = (part.strip() for part in before.partition("="))
            own = dict(part.strip().split(": ", 1) for part in after.split(";") if part.strip())
            yield name or slug(row), row, own


def slug(row: str) -> str:
    """rtx-4090-laptop of GeForce RTX 4090 Mobile, quadro-rtx-4000 of Quadro RTX 4000."""
    text = row.lower()
    for maker in MAKERS:
        is_quadro_rtx = maker == "quadro " and text.removeprefix(maker).startswith(OF_QUADRO)
        text = text if is_quadro_rtx else text.removeprefix(maker)
    text = re.sub(r"\bmobile\b(.*?) generation", r"\1 laptop", text).replace("mobile", "laptop")
    text = re.sub(r"(\d) gb", r"\1gb", text.replace(" generation", "").replace(" blackwell", ""))
    return re.sub(r"\s+", "-", text.strip())


def of_shared_memory(text: str) -> dict[str, str]:
    """Sizes of a memory shared with the processor, of which its drivers give half to graphics."""
    sizes = [int(size) for size in text.split()]
    halves = ", ".join(f"{size}gb: ~{size << 29}" for size in sizes)
    return {"memory_sizes": f"{{{halves}}}"}


def _series(vendor: str, entries: Mapping[str, tuple[object, ...]]) -> Iterator[Series]:
    for file, (architecture, document, multiples, table, *more) in entries.items():
        yield Series(file, vendor, architecture, document, multiples, table, *more)  # type: ignore[arg-type]


ALL = (*_series("NVIDIA", NVIDIA | JETSON), *_series("AMD", AMD), *_series("Intel", INTEL))
