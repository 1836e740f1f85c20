"""Constants of engines as YAML: `kernels:` of engines/*.yaml, by device and operation."""

import csv
import json

from engine_fits.fitting import SIGNIFICANT

BEGIN = "kernels: # made by benchmarks/fit_engines.py\n"
KNOWN = ("kernel", "dtype", "cache", "widths")
ORIGIN = ("version", "rows", "error", "low", "high")
SOURCES = {
    "attention_prefill": "context_attention_perf",
    "attention_decode": "generation_attention_perf",
    "latent_prefill": "context_mla_perf",
    "latent_decode": "generation_mla_perf",
    "latent_product": "mla_bmm_perf",
    "experts": "moe_perf",
    "collective_graph": "custom_allreduce_perf",
    "collective_host": "custom_allreduce_perf",
}


def versions(path):
    """The version of each table, device and engine, by kernels_sources.csv."""
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["table"], row["device"], row["engine"]): row["version"] for row in csv.DictReader(file)}


def rounded(number):
    """A number of few digits, whole where it is."""
    number = float(f"{float(number):.{SIGNIFICANT}g}")
    return int(number) if number.is_integer() else number


def written(devices):
    """The text of the kernels of an engine: entries by device and operation."""
    lines = [BEGIN]
    for device, operations in devices.items():
        lines.append(f"  {device}:\n")
        for operation, entries in operations.items():
            lines.append(f"    {operation}:\n")
            for entry in entries:
                known, origin = (
                    _flow({key: entry[key] for key in keys if key in entry}) for keys in (KNOWN, ORIGIN)
                )
                rest = _flow({key: value for key, value in entry.items() if key not in {*KNOWN, *ORIGIN}})
                lines.append(f"      - {{{known},\n         {origin},\n         {rest}}}\n")
    return "".join(lines)


def _flow(entry):
    return ", ".join(f"{key}: {_value(value)}" for key, value in entry.items())


def _value(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(json.dumps(str(part)) for part in value)}]"
    return value if isinstance(value, str) else repr(value)


def renewed(text, devices):
    """The text of an engine's YAML with these kernels at its end, in place of those that it had."""
    return text.partition("kernels:")[0] + written(devices)
