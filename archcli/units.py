"""How people write amounts: 4096, 8k and 8K, 80GiB, bf16. Read here exactly; `render` writes them."""

from __future__ import annotations

import re

from archcli.arith import ELEMENT_BITS
from archcli.errors import ArchError

SUFFIXES = {"": 1, "k": 1000, "K": 1024}
"""8k is 8,000; 8K is 8,192."""

POWERS = {**SUFFIXES, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}
"""B for billion, as parameters are counted; K stays 1,024 as above."""

LONGEST = 30
"""Digits of a number that anybody means."""

_PREFIXES = "KMGTPE"
BYTE_UNITS = {
    "": 1,
    "B": 1,
    "kB": 1000,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate(_PREFIXES, 1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate(_PREFIXES, 1)},
}
"""IEC 80000-13: KiB, MiB, … are powers of 1,024; kB, MB, … powers of 1,000."""


def parse_count(text: str) -> int:
    """A whole number such as 4096, 131_072, 8k (8,000) or 8K (8,192); ArchError for anything else."""
    return _amount(text, SUFFIXES, "a whole number such as 4096, 8k (8,000) or 8K (8,192)", "")


def parse_quantity(text: str) -> int:
    """Parse a whole number: 4096, 8k, 1.5M, 70B (70,000,000,000), 1.8T, 8e9; ArchError otherwise."""
    wanted = "a whole number such as 4096, 8k, 1.5M, 70B or 8e9"
    power = re.fullmatch(r"(.*\d)[eE]\+?(\d\d?)", text.strip(), re.ASCII)
    return (
        _amount(power[1], {"": 10 ** int(power[2])}, wanted, "")
        if power
        else _amount(text, POWERS, wanted, "")
    )


def parse_bytes(text: str) -> int:
    """Parse an amount of memory such as 80GiB, 24GB or 1.5TiB, in bytes.

    A bare number is bytes. ArchError for anything else.
    """
    return _amount(text, BYTE_UNITS, "an amount of memory such as 80GiB or 24GB", _unit_hint(text.strip()))


def parse_dtype(text: str) -> str:
    """The name of a dtype whose width is known; ArchError for any other."""
    if text not in ELEMENT_BITS:
        raise ArchError(f"unknown dtype {text[:40]!r}", "one of " + ", ".join(ELEMENT_BITS))
    return text


def _amount(text: str, units: dict[str, int], wanted: str, hint: str) -> int:
    """Digits, perhaps a decimal fraction, then a unit that makes the whole a whole number."""
    number = re.fullmatch(r"(\d+(?:_\d+)*)(?:\.(\d+))? ?([A-Za-z]*)", text.strip(), re.ASCII)
    if number is None or number[3] not in units or len(number[1] + (number[2] or "")) > LONGEST:
        raise ArchError(f"{text[:40]!r} is not {wanted}", hint)
    whole, decimals = number[1].replace("_", ""), number[2] or ""
    amount: int
    amount, rest = divmod(int(whole + decimals) * units[number[3]], 10 ** len(decimals))
    if rest:
        raise ArchError(f"{text[:40]!r} is not {wanted}", "it must come to a whole number")
    return amount


def _unit_hint(text: str) -> str:
    unit = text.lstrip("0123456789_. ")
    if re.fullmatch(r"[kKMGTPE]i?", unit):
        return f"write {unit[0]}iB (powers of 1,024) or {unit[0]}B (powers of 1,000)"
    same = next((known for known in BYTE_UNITS if known.lower() == unit.lower()), "")
    return f"write {same}" if same else ""
