"""The `efficiency` of a device's YAML as text: a line of constants and a line of their origin for each."""

import json

BEGIN = "efficiency: # made by benchmarks/fit_efficiency.py\n"
ORIGIN = ("error", "low", "high", "rows", "table", "fitted", "fitted_on")


def written(groups):
    """The text of the constants of a device, by group and name."""
    lines = [BEGIN]
    for group, entries in groups.items():
        lines.append(f"  {group}:\n")
        for name, entry in entries.items():
            key = json.dumps(name) if name.isdecimal() else name
            numbers = _flow({k: v for k, v in entry.items() if k not in ORIGIN})
            origin = _flow({k: entry[k] for k in ORIGIN if k in entry})
            lines.append(f"    {key}:\n      {{{numbers},\n       {origin}}}\n")
    return "".join(lines)


def _flow(entry):
    return ", ".join(f"{key}: {_value(value)}" for key, value in entry.items())


def _value(value):
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, int) else repr(value)


def renewed(text, groups):
    """The text of a device's YAML with these constants at its end, in place of those that it had."""
    before = text.partition("efficiency:")[0]
    return before + (written(groups) if groups else "")
