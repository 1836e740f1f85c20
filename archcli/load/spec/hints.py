"""Hints on refused values: 4096.0 or "4096" for 4096, yes for true, a misspelled word."""

from __future__ import annotations

import math
from typing import Any

from archcli.load.yaml.nodes import Node, plain
from archcli.load.yaml.scalars import OLD_BOOLEANS, resolve
from archcli.modules.spec.values import Refusal, ValueType
from archcli.wording import closest, either, format_value


def hint(node: Node, accepted: ValueType) -> str:
    """The suggested replacement for a refused node; empty where there is none."""
    value = node.value
    if (
        isinstance(value, float)
        and math.isfinite(value)
        and value == int(value)
        and _accepts(accepted, int(value))
    ):
        return f"write {int(value)}"
    if isinstance(value, int | float) and _accepts(accepted, node.text):
        return "put it in quotes"
    if value is not None and _accepts(accepted, [plain(node)]):
        return f"write [{format_value(plain(node))}]"
    return _hint_on_text(node, accepted) if isinstance(value, str) else ""


def _hint_on_text(node: Node, accepted: ValueType) -> str:
    text = node.value
    try:
        meant = resolve(OLD_BOOLEANS.get(text.lower(), text.replace(",", "")) or "~")
    except OverflowError:
        return ""
    if text.lower() in OLD_BOOLEANS and _accepts(accepted, meant):
        return f"write {format_value(meant)}"
    if not isinstance(meant, str) and _accepts(accepted, meant):
        return "drop the quotes" if not node.text else f"write {format_value(meant)}"
    if text[:-1].isdecimal() and text[-1] in "kK" and len(text) < len(str(1 << 64)):
        return f"write {int(text[:-1]) * (1000 if text[-1] == 'k' else 1024)}"
    close = closest(text, [choice for choice in accepted.choices if isinstance(choice, str)])
    return f"did you mean {either(close)}?" if close else ""


def _accepts(accepted: ValueType, value: Any) -> bool:
    try:
        accepted.convert(value)
    except Refusal:
        return False
    return True
