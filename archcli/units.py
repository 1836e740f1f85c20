"""Read amounts as people write them (8k, 80GiB, 20tok/s), exactly; write some of them in sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import gcd
from typing import Self

from archcli.arith import ELEMENT_BITS
from archcli.errors import ArchError


class Taken(str):
    """The name that a user's word stands for, with a note: q4_k_m for 4bit."""

    __slots__ = ("note", "word")

    note: str
    word: str

    def __new__(cls, taken: str, note: str, word: str = "") -> Self:
        """Make the name, a str with a note."""
        text = super().__new__(cls, taken)
        text.note, text.word = note, word
        return text


_PREFIXES = "KMGTPE"
BINARY = {f"{prefix}i": 1024**power for power, prefix in enumerate(_PREFIXES, 1)}
"""IEC 80000-13: Ki, Mi, … are powers of 1,024."""

COUNT_UNITS = {
    "": 1,
    "k": 1000,
    "K": 1024,
    "M": 10**6,
    "G": 10**9,
    "B": 10**9,
    "T": 10**12,
    **BINARY,
}
"""8k is 8,000, 8K is 8,192; B for billion, as parameters are counted."""

BYTE_UNITS = {
    "": 1,
    "b": 1,
    **{f"{prefix}b".lower(): 1000**power for power, prefix in enumerate(_PREFIXES, 1)},
    # no bare k: 80k could mean either power, and `parse_exact_bytes` says so in a hint
    **{prefix.lower(): 1000**power for power, prefix in enumerate(_PREFIXES, 1) if prefix != "K"},
    **{f"{unit}b".lower(): factor for unit, factor in BINARY.items()},
    **{unit.lower(): factor for unit, factor in BINARY.items()},
}
"""In lower case: KiB, MiB, … are powers of 1,024; kB, MB, …, and G for GB, powers of 1,000."""

TIME_UNITS = {
    "ns": (1, 10**9),
    **dict.fromkeys(("us", "µs", "\u03bcs"), (1, 10**6)),  # the sign for micro, and the Greek letter
    "ms": (1, 1000),
    "s": (1, 1),
    "min": (60, 1),
    "h": (3600, 1),
    "d": (86_400, 1),
}
"""Seconds of a unit, as (numerator, denominator)."""

LONGEST = 30
"""The most digits of a number; more are a mistake."""

# two digits of exponent at most: no text makes a power of ten that takes long to compute
# ASCII: \d would match the digits of every script, and int() reads them too
NUMBER = re.compile(r"(\d+(?:_\d+)*)(?:\.(\d+))?(?:[eE]\+?(\d\d?))? ?([A-Za-z]*)", re.ASCII)
DECIMAL = re.compile(r"(\d+(?:_\d+)*)(?:\.(\d+))?(?:[eE]([+-]?\d\d?))?(?: ?%|x)?", re.ASCII)
TIME = re.compile(r"(.*?\d) ?([a-zµ\u03bc]*)")
RATE = re.compile(r"(.*?\d) ?([kKM]?) ?tok(?:ens?)?/s(?:ec)?")

ROUNDED = re.compile(r"(\d{1,6})(?:\.(\d{1,6}))?([MBT])", re.ASCII)
FIGURE = "a whole number, or a figure as it is printed, such as 7.62B"

COUNT = "a whole number such as 4096, 8k (8,000), 8K (8,192), 1.5M, 70B or 8e9"
MEMORY = "an amount of memory such as 80GiB, 24GB or 8e9"
PACE = "a time such as 1.2s or 850ms, or a rate such as 20tok/s"


def parse_count(text: str) -> int:
    """Parse a whole number: 4096, 131_072, 8k, 8K (8,192), 128Ki, 1.5M, 70B, 8e9; ArchError otherwise."""
    amount, parts = _amount(text, text.strip(), COUNT_UNITS, COUNT)
    if amount % parts:
        raise ArchError(f"{text[:40]!r} is not {COUNT}", "it must come to a whole number")
    return amount // parts


def agrees(published: int | str, counted: int) -> bool:
    """Whether a published figure is this count: equal, or as printed (7.62B) rounded to the same digits."""
    if isinstance(published, int):
        return published == counted
    match = ROUNDED.fullmatch(published)
    if match is None:
        return False
    # in whole numbers, at the decimals of the figure itself: 7.6B and 7.60B differ
    decimals, unit = len(match[2] or ""), COUNT_UNITS[match[3]]
    steps = (2 * counted * 10**decimals + unit) // (2 * unit)  # half rounds up
    return bool(steps == int(match[1] + (match[2] or "")))


def parse_bytes(text: str) -> int:
    """Parse an amount of memory such as 80GiB, 24GB, 80G (of 10^9) or 1.5TiB, in bytes.

    A bare number is bytes; a part of a byte is left out, case makes no difference. ArchError for anything
    else.
    """
    amount, parts = parse_exact_bytes(text)
    return amount // parts


def parse_exact_bytes(text: str) -> tuple[int, int]:
    """(numerator, denominator) of an amount of memory such as 18.78GiB; ArchError otherwise."""
    lower = text.strip().lower()
    hint = "write KiB (powers of 1,024) or kB (powers of 1,000)" if lower.endswith("k") else ""
    return _amount(text, lower, BYTE_UNITS, MEMORY, hint)


def parse_decimal(text: str) -> tuple[int, int]:
    """(numerator, denominator) of a decimal such as 2.5, 1e-5, 25% (1/4) or 2.5x; ArchError otherwise."""
    number = DECIMAL.fullmatch(text.strip())
    power = int((number and number[3]) or 0)
    # before int(): reading a long text takes quadratic time, and Python refuses 4,300 digits
    if number is None or len(number[1] + (number[2] or "")) > LONGEST or abs(power) > LONGEST:
        raise ArchError(f"{text[:40]!r} is not a number such as 2.5 or 25%")
    decimals = number[2] or ""
    # a percent sign stands for two more decimals: 25% is 25e-2
    power -= len(decimals) + 2 * number[0].endswith("%")
    over, under = int(number[1] + decimals) * 10 ** max(power, 0), 10 ** max(-power, 0)
    return _lowest(over, under)


def _lowest(over: int, under: int) -> tuple[int, int]:
    shared = gcd(over, under)
    return over // shared, under // shared


def parse_seconds(text: str) -> tuple[int, int]:
    """(numerator, denominator) of a time in seconds: 7ms, 250us, 1.5 h, or 0.5 alone; ArchError otherwise."""
    time = TIME.fullmatch(text.strip())
    if time is None or (time[2] or "s") not in TIME_UNITS or not DECIMAL.fullmatch(time[1]):
        raise ArchError(
            f"{text[:40]!r} is not a time such as 7ms, 2.5s or 1h", "units: ns, us, ms, s, min, h, d"
        )
    (over, under), (seconds, parts) = parse_decimal(time[1]), TIME_UNITS[time[2] or "s"]
    return _lowest(over * seconds, under * parts)


def parse_pace(text: str) -> tuple[int, int, bool]:
    """(numerator, denominator, is a rate) of seconds, or of tokens a second: 1.2s, 850ms, 3.7k tok/s.

    ArchError for anything else, for a number without a unit, and for zero.
    """
    written = text.strip()
    rate, time = RATE.fullmatch(written), TIME.fullmatch(written)
    if rate is not None and DECIMAL.fullmatch(rate[1]):
        # of a rate K is no power of two
        (over, under), factor = parse_decimal(rate[1]), COUNT_UNITS[rate[2].replace("K", "k")]
        over, under = _lowest(over * factor, under)
    elif time is not None and not time[2] and DECIMAL.fullmatch(time[1]):
        raise ArchError(
            f"{text[:40]!r} has no unit", f"write {written[:40]}s, {written[:40]}ms or {written[:40]}tok/s"
        )
    elif time is not None and time[2] in TIME_UNITS and DECIMAL.fullmatch(time[1]):
        over, under = parse_seconds(written)
    else:
        raise ArchError(f"{text[:40]!r} is not {PACE}")
    if not over:
        raise ArchError(f"{text[:40]!r} is no measurement", f"it must be above zero: {PACE}")
    return over, under, rate is not None


def parse_quotient(text: str) -> tuple[int, int]:
    """(numerator, denominator) of a number in an expression: a decimal, a count, a time or memory.

    4096, 2.5, 1e-5, 25%, 2.5x, 8k, 8K, 70B, 1GiB, 7ms; B is a billion. ArchError otherwise.
    """
    number = text.strip()
    if DECIMAL.fullmatch(number):
        return parse_decimal(number)
    if (time := TIME.fullmatch(number)) and time[2] in TIME_UNITS:
        return parse_seconds(number)
    match = NUMBER.fullmatch(number)
    unit = match[4] if match else "?"
    # counts before bytes: 70B is 70 billion, although BYTE_UNITS reads b as a byte
    if unit in COUNT_UNITS:
        return parse_count(number), 1
    if unit.lower() in BYTE_UNITS:
        return parse_exact_bytes(number)
    raise ArchError(f"{text[:40]!r} is no number", f"write {COUNT}, 2.5, 25%, 1GiB or 7ms")


def parse_dtype(text: str) -> str:
    """The name of a dtype whose width is known, in any case; ArchError for any other."""
    name = text.strip().lower()
    if name not in ELEMENT_BITS:
        raise ArchError(f"unknown dtype {text[:40]!r}", "one of " + ", ".join(ELEMENT_BITS))
    return name


def tokens_note(text: str) -> str:
    """A note that a length such as 128k may be meant as 131,072; empty where it is unambiguous."""
    match = re.fullmatch(r"(\d{1,6})([kM])", text.strip(), re.ASCII)
    # only powers of two are ambiguous: few mean 102,400 by 100k, many 131,072 by 128k
    if match is None or int(match[1]).bit_count() != 1:
        return ""
    unit, power = ("Ki", 1) if match[2] == "k" else ("Mi", 2)
    value, binary = parse_count(text), int(match[1]) * 1024**power
    return f"{text.strip()} is {value:,} tokens; {match[1]}{unit} is {binary:,}"


def bytes_note(text: str) -> str:
    """A note that 80G is read as 80GB, not as 80GiB; empty for an unambiguous unit."""
    match = re.fullmatch(r"(.*\d) ?([mgtpe])", text.strip().lower())
    if match is None:
        return ""
    unit = match[2].upper()
    value, binary = parse_bytes(text), parse_bytes(f"{match[1]}{unit}iB")
    return f"{text.strip()} is {match[1]}{unit}B, {value:,} bytes; {match[1]}{unit}iB is {binary:,}"


def _amount(text: str, plain: str, units: Mapping[str, int], wanted: str, hint: str = "") -> tuple[int, int]:
    """(numerator, denominator) of digits, perhaps a fraction and a power of ten, then a unit."""
    number = NUMBER.fullmatch(plain)
    if number is None or number[4] not in units or len(number[1] + (number[2] or "")) > LONGEST:
        raise ArchError(f"{text[:40]!r} is not {wanted}", hint)
    whole, decimals, power = number[1].replace("_", ""), number[2] or "", int(number[3] or 0)
    # 1e3k states two powers of ten: likelier a slip than a product
    if power > LONGEST or (power and number[4]):
        raise ArchError(f"{text[:40]!r} is not {wanted}", hint)
    return int(whole + decimals) * 10**power * units[number[4]], 10 ** len(decimals)


def decimals_of(value: float) -> int:
    """How many decimals show three figures of a value."""
    # from 9.995 on a value rounds to 10.0, and from 99.95 on to 100
    return sum(abs(value) < limit for limit in (9.995, 99.95))


def three_figures(value: float) -> str:
    """4.38, 43.8, 438 and 4,380."""
    return f"{value:,.{decimals_of(value)}f}"


def gib(size: float) -> str:
    """Bytes as `79.6 GiB`."""
    return f"{size / 2**30:,.1f} GiB"


# from here on a number takes the next prefix
FOUR_FIGURES = 1_000
# no prefix is left from here on: 1.00e+09Y
BEYOND_PREFIXES = 1_000_000
PREFIXES = ("", "K", "M", "G", "T", "P", "E", "Z", "Y")


def scaled(value: float, base: int, prefixes: tuple[str, ...], gap: str = "") -> str:
    """Three figures and a prefix: 8030261248 is 8.03B. Four figures take the next prefix: 0.98 GiB."""
    power = 0
    while (
        power + 1 < len(prefixes)
        # judged as it will be shown: 999,996 is 1.00M, not 1,000K
        and round(abs(value) / base**power, decimals_of(value / base**power)) >= FOUR_FIGURES
    ):
        power += 1
    shown = value / base**power
    digits = decimals_of(shown) if power else (0 if isinstance(value, int) else 1)
    figures = f"{shown:,.{digits}f}" if abs(shown) < BEYOND_PREFIXES else f"{shown:.2e}"
    return f"{figures}{gap}{prefixes[power]}"


COUNTS = ("", "K", "M", "B", "T")
COUNTS_FROM = 10_000  # below, the figure itself is as short
DECIMAL_BYTES = ("", "k", *PREFIXES[2:])
BINARY_BYTES = ("", *(f"{prefix}i" for prefix in PREFIXES[1:]))


def short_count(n: float) -> str:
    """A number as a sentence has it: `8.03B`, and `9,999` where that is as short."""
    return scaled(n, 1000, COUNTS) if n >= COUNTS_FROM else f"{n:,}"


def written_count(n: int) -> str:
    """A count as people write it, exactly: 1T, 300B, 1.5M; 123,456,789 where no unit is exact."""
    units = (("T", 10**12), ("B", 10**9), ("M", 10**6))
    known = (
        f"{n / factor:.3f}".rstrip("0").rstrip(".") + unit for unit, factor in units if _is_exact(n, factor)
    )
    return next(known, f"{n:,}")


def _is_exact(n: int, factor: int) -> bool:
    """Whether a count has at most three decimals in a unit."""
    return n >= factor and n % (factor // 1000) == 0


def short_flops(n: float, unit: str = "FLOP") -> str:
    """FLOPs as a sentence has them: `583 GFLOP`."""
    return f"{scaled(n, 1000, PREFIXES, ' ')}{unit}"


def decimal_bytes(size: float) -> str:
    """Bytes in powers of 1,000: `41.9 GB`."""
    return f"{scaled(size, 1000, DECIMAL_BYTES, ' ')}B"


def binary_bytes(size: float) -> str:
    """Bytes in powers of 1,024: `39.1 GiB`."""
    return f"{scaled(size, 1024, BINARY_BYTES, ' ')}B"


def both_bytes(size: float) -> str:
    """Bytes in both units, as people ask in either: `41.9 GB (39.1 GiB)`."""
    return f"{decimal_bytes(size)} ({binary_bytes(size)})"
