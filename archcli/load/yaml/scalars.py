"""What an unquoted YAML scalar means: the core schema of YAML 1.2.2, section 10.3.2.

So `1e-5` is a number and `no` is text. One thing is added: digits may be grouped, 8_030_261_248.
"""

from __future__ import annotations

import math

NULLS = {"", "~", "null", "Null", "NULL"}
BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
OLD_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
"""What YAML 1.1 took for booleans and 1.2 takes for text."""

NAN = {".nan", ".NaN", ".NAN"}
INFINITY = {".inf", ".Inf", ".INF"}
LONGEST_NUMBER = 40
_BEGINNINGS = frozenset("+-.0123456789")
_NUMERIC = frozenset("+-.0123456789_eE")
_BASES = {"0o": 8, "0x": 16}


def resolve(text: str) -> bool | int | float | str | None:
    """None, a boolean, a whole or a real number, or the text itself.

    OverflowError for a number of more digits than any size has.
    """
    if text in NULLS:
        return None
    if text[0] not in _BEGINNINGS:
        return BOOLEANS.get(text, text)
    number = _number(text)
    return text if number is None else number


def _number(text: str) -> int | float | None:
    base = _BASES.get(text[:2])
    if base is None and not _NUMERIC.issuperset(text):
        return _infinity_or_nan(text)
    try:
        number = float(text) if base is None else 0.0
    except ValueError:
        return None
    if len(text) > LONGEST_NUMBER:
        raise OverflowError(f"a number of {len(text):,} characters")
    try:
        return int(text[2:], base) if base else int(text)
    except ValueError:
        return None if base else number


def _infinity_or_nan(text: str) -> float | None:
    sign = -1.0 if text[0] == "-" else 1.0
    bare = text[1:] if text[0] in "+-" else text
    if bare in INFINITY:
        return sign * math.inf
    return math.nan if text in NAN else None
