"""`efficiency` of a device's YAML: the fractions of its peaks that it reaches.

    efficiency:
      matrix_products:
        bf16: {launch_us: 2.9, depth_ns: 0.21, compute: 0.81, memory: 0.9, exponent: 2.3,
               error: 0.09, low: 0.88, high: 1.17, rows: 729, table: gemms.csv, fitted: "2026-11-23"}

`archcli.wings.serving.predict.constants` explains the constants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from archcli.errors import Problem, quote, suggest
from archcli.load.yaml.nodes import Node, plain, shown

Entry = Mapping[str, Any]
Constants = Mapping[str, Mapping[str, Entry]]
"""Constants by group, by name (a dtype, a kind of kernel, a number of ranks), and by key."""

DTYPES = ("bf16", "fp16", "fp8", "fp4", "int8", "tf32", "fp32")
KINDS_OF_KERNEL = ("normalization", "gated_activation", "addition", "elementwise", "movement", "gather")


class Range(NamedTuple):
    """The allowed values of a constant, both ends included."""

    least: float
    most: float


SHARE = Range(1e-4, 4.0)
"""A fraction of a peak; above 1 where a cache, or work at the same time, hides part of the cost."""
MICROSECONDS, NANOSECONDS = Range(0, 1e6), Range(0, 1e3)
RATIO = Range(1e-3, 1e3)
"""Measured over expected."""


class ConstantGroup(NamedTuple):
    """A group of constants: allowed names (None: numbers of ranks), and the range of each constant."""

    names: tuple[str, ...] | None
    numbers: Mapping[str, Range]


GROUPS: Mapping[str, ConstantGroup] = {
    "matrix_products": ConstantGroup(
        DTYPES,
        {
            "launch_us": MICROSECONDS,
            "depth_ns": NANOSECONDS,
            "compute": SHARE,
            "memory": SHARE,
            "exponent": Range(0.25, 100),
        },
    ),
    "memory_bound": ConstantGroup(KINDS_OF_KERNEL, {"launch_us": MICROSECONDS, "memory": SHARE}),
    "attention": ConstantGroup(DTYPES, {"compute": SHARE}),
    "communication": ConstantGroup(
        None, {"latency_us": MICROSECONDS, "link": SHARE, "small_low": RATIO, "small_high": RATIO}
    ),
    "training": ConstantGroup(
        DTYPES,
        {
            "matrix_products": SHARE,
            "memory_bound": SHARE,
            "attention": SHARE,
            "communication": Range(1e-4, 1e4),
            "attention_best": SHARE,
        },
    ),
}
ORIGIN: Mapping[str, Range] = {
    "error": Range(0, 10),
    "low": RATIO,
    "high": RATIO,
    "rows": Range(1, 1e9),
}
"""Cross-validated mean error; 10% and 90% quantile of measured / expected; number of fitted rows."""
TEXTS = ("table", "fitted")
OPTIONAL = ("fitted_on",)
"""The device on which the measurements were made, if it is another one."""
GROUP_SIZE = re.compile(r"[2-9]|[1-9]\d{1,4}", re.ASCII)
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def efficiency_of(node: Node) -> Constants:
    """The constants that a checked node states."""
    constants: Constants = plain(node)
    return constants


ENGINES_AND_OTHERS = ("bf16_tflops", "fp32_tflops")
"""Figures of the rates of matrix engines and of other units."""
SAME_ENGINES = 0.99
"""The rate of matrix engines, beside the lender's, from which they are the same but for rounded figures."""
OF_CHIP = ("matrix_products", "memory_bound", "attention")
"""Groups of constants that depend on the chip alone, not on the links of a device."""


def borrowed(
    constants: Constants,
    lender: str,
    *,
    same_link: bool,
    figures: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
) -> Constants:
    """The constants of a device with the same chip, each with the name of that device (`fitted_on`).

    Those of communication and of whole training steps are lent only to a device with the same kind of link.
    figures: of the borrower and of the lender. The matrix engines of a GeForce run at half the rate beside
        its other units, as they add in fp32.
    """
    engines = _engines(*figures)
    slower = engines < SAME_ENGINES
    groups = {group: entries for group, entries in constants.items() if same_link or group in OF_CHIP}
    shares = {group: OF_ENGINES.get(group, ()) if slower else () for group in groups}
    return {
        group: {
            name: {"fitted_on": lender, **entry, **_of_engines(entry, shares[group], constants, engines)}
            for name, entry in entries.items()
        }
        for group, entries in groups.items()
    }


def _engines(figures: Mapping[str, Any], lender: Mapping[str, Any]) -> float:
    """The rate of matrix engines over that of other units, beside the lender's; 1 where it is not known."""
    if not all(key in known for key in ENGINES_AND_OTHERS for known in (figures, lender)):
        return 1.0
    mine, theirs = ([known[key].value for key in ENGINES_AND_OTHERS] for known in (figures, lender))
    return float(mine[0] / mine[1] / (theirs[0] / theirs[1]))


OF_ENGINES = {
    "matrix_products": ("compute",),
    "attention": ("compute",),
    "training": ("attention", "attention_best"),
}
"""Constants that are shares of the peak of the matrix engines, by group."""


def _of_engines(entry: Entry, keys: Iterable[str], constants: Constants, engines: float) -> Entry:
    """The shares, by key, that the same chip reaches of slower engines.

    Two limits are joined, as those of compute and memory are: the engines, and all that feeds them, which is
    as fast beside slower ones. 1 / share^p = 1 + rest^p, and the rest shrinks with the rate of the engines.
    """
    p = next((product["exponent"] for product in constants.get("matrix_products", {}).values()), 1.0)
    shares = {key: entry[key] for key in keys if entry.get(key, 1) < 1}
    return {key: float((1 + engines**p * (share**-p - 1)) ** (-1 / p)) for key, share in shares.items()}


def efficiency_mistakes(node: Node) -> Iterator[Problem]:
    """What is wrong with the `efficiency` of a device, each with its place."""
    if not isinstance(node.value, dict):
        yield _problem(node, f"efficiency must be a mapping, not {shown(node)}", suggest("", GROUPS))
        return
    for group, entries in node.value.items():
        path = f"efficiency.{group}"
        if group not in GROUPS:
            yield _unknown(group, entries, GROUPS)
        elif not isinstance(entries.value, dict):
            yield _problem(entries, f"{path} must be a mapping, not {shown(entries)}")
        else:
            for name, entry in entries.value.items():
                yield from _of_name(GROUPS[group], name, entry)
                yield from _of_entry(GROUPS[group], f"{path}.{name}", entry)


def _of_name(group: ConstantGroup, name: str, entry: Node) -> Iterator[Problem]:
    if group.names is not None and name not in group.names:
        yield _unknown(name, entry, group.names)
    elif group.names is None and not GROUP_SIZE.fullmatch(name):
        yield _problem(entry, f"{quote(name)} is no size of a group of devices", "a number from 2")


def _of_entry(group: ConstantGroup, path: str, entry: Node) -> Iterator[Problem]:
    """What is wrong with the constants of one dtype, kind of kernel or group size."""
    if not isinstance(entry.value, dict):
        yield _problem(entry, f"{path} must be a mapping, not {shown(entry)}")
        return
    numbers = {**group.numbers, **ORIGIN}
    for missing in [key for key in (*numbers, *TEXTS) if key not in entry.value]:
        yield _problem(entry, f"{path} has no {missing}", MEANINGS.get(missing, ""))
    for key, node in entry.value.items():
        if key in numbers:
            yield from _of_number(f"{path}.{key}", numbers[key], node)
        elif key in (*TEXTS, *OPTIONAL):
            yield from _of_text(f"{path}.{key}", key, node)
        else:
            yield _unknown(key, node, (*numbers, *TEXTS, *OPTIONAL))
    low, high = (entry.value.get(key) for key in ("low", "high"))
    if low and high and _is_number(low.value) and _is_number(high.value) and low.value > high.value:
        yield _problem(low, f"{path}.low is above high, {shown(high)}")


MEANINGS = {
    "error": "the mean error on measurements not used for fitting, such as 0.09",
    "small_low": "low of collectives below 1 MB, which are not fitted, such as 0.5",
    "small_high": "high of collectives below 1 MB, which are not fitted, such as 2",
    "low": "measured over expected at the 10% quantile of these measurements, such as 0.88",
    "high": "measured over expected at the 90% quantile of these measurements, such as 1.17",
    "rows": "how many measurements were fitted",
    "table": "where the measurements are",
    "fitted": "the day of the fit, such as 2026-11-23",
}


def _of_number(path: str, allowed: Range, node: Node) -> Iterator[Problem]:
    if not _is_number(node.value) or not allowed.least <= node.value <= allowed.most:
        what = f"{path} must be a number from {allowed.least:g} to {allowed.most:g}, not {shown(node)}"
        yield _problem(node, what)


def _of_text(path: str, key: str, node: Node) -> Iterator[Problem]:
    if not isinstance(node.value, str) or not node.value:
        yield _problem(node, f"{path} must be text, not {shown(node)}")
    elif key == "fitted" and not DATE.fullmatch(node.value):
        yield _problem(node, f"{path} must be a date such as 2026-11-23, not {shown(node)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unknown(key: str, node: Node, known: Any) -> Problem:
    place = node.key or node.place
    return Problem(f"unknown key {quote(key)}", suggest(key, known), place.mark())


def _problem(node: Node, what: str, hint: str = "") -> Problem:
    return Problem(what, hint, node.where.mark())
