"""Write devices/NAME.yaml of processors: bandwidth by their channels, rates by cores, vectors and base clock.

    python benchmarks/datasheet_cpus.py

A row of a table is the name, cores, the base clock in GHz and watts; 8+16 and 3.2/2.4 are those of cores of
two kinds. Each series says where they were read.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from datasheet_tables.cpus import ALL

DEVICES = Path(__file__).parent.parent / "devices"
BYTES = 8
"""Of a transfer of a memory channel."""


class Cpus(NamedTuple):
    """Processors with the same memory: channels, MT/s and the most GB.

    floats: FLOP of fp32 in a cycle of a core, or of both kinds of core. bf16: of bf16, 0 for none.
    """

    vendor: str
    prefix: str
    source: str
    certainty: str
    channels: int
    transfers: int
    most_gb: int
    floats: tuple[int, ...]
    bf16: int
    table: str


def main() -> None:
    """Write the files."""
    for file, entry in ALL.items():
        cpus = Cpus(*entry)
        lines = [*head(cpus), "variants:"]
        for row in cpus.table.strip().splitlines():
            lines += variant(cpus, *row.split())
        (DEVICES / f"{file}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def head(cpus: Cpus) -> list[str]:
    """What the processors share."""
    speed = f"{cpus.channels} channels of 8 bytes at {cpus.transfers:,} MT/s"
    vectors = " and ".join(str(floats) for floats in cpus.floats)
    narrow = f", and {cpus.bf16} of bf16" if cpus.bf16 else ": numbers of 16 bits are multiplied as fp32"
    return [
        f"vendor: {cpus.vendor}",
        "kind: cpu",
        f'source: "{cpus.source}; {speed}"',
        f"certainty: {cpus.certainty}",
        f'estimates: "cores x base clock x {vectors} FLOP of fp32 a cycle{narrow}"',
        'remark: "the memory is the most that it takes: a name may state less"',
        f"memory_gb: {cpus.most_gb}",
        f"bandwidth_gb_s: {cpus.channels * BYTES * cpus.transfers / 1000:g}",
    ]


def variant(cpus: Cpus, name: str, cores: str, clock: str, watts: str) -> list[str]:
    """A processor of the series."""
    kinds = zip(cores.split("+"), clock.split("/"), cpus.floats, strict=False)
    rate = sum(int(number) * float(ghz) * floats for number, ghz, floats in kinds) / 1000
    narrow = f"bf16_tflops: ~{rate * cpus.bf16 / cpus.floats[0]:.4g}" if cpus.bf16 else ""
    figures = [narrow or f"fp16_tflops: ~{rate:.4g}", f"fp32_tflops: ~{rate:.4g}", f"tdp_w: {watts}"]
    return [f"  {cpus.prefix}{name}: {{{', '.join(figures)}}}"]


if __name__ == "__main__":
    main()
