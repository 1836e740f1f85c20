"""Messages on refused keys, kinds and values, each with a hint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from archcli.errors import SET, closest, either, format_value, quote
from archcli.load.spec.fields import choices, fields
from archcli.load.spec.renamed import OUR_WORD
from archcli.load.yaml.nodes import Node, plain, shown
from archcli.load.yaml.reader import OLD_BOOLEANS, resolve
from archcli.modules.spec.base import Spec
from archcli.modules.spec.fields import Field
from archcli.modules.spec.kinds import kind_of, kinds
from archcli.modules.spec.values import Refusal, ValueType


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
    # the length bounds int(), which takes quadratic time; k and K as in `parse_count`
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


Options = Mapping[str, type[Spec]]

MEANT = {
    "swiglu": "{kind: glu, activation: silu}",
    "geglu": "{kind: glu, activation: gelu}",
    "reglu": "{kind: glu, activation: relu}",
}
"""Names people give to a kind with certain fields. Shazeer 2020, arXiv:2002.05202."""


def unknown_key(key: str, cls: type[Spec], *, takes_kind: bool) -> tuple[str, str, list[str]]:
    """(problem, hint) for an unknown key, with the nearest known keys."""
    known = [*(("kind",) if takes_kind else ()), *fields(cls)]
    what = f"unknown key {quote(key)}"
    ours = OUR_WORD.get(key, "")
    # before near names: a key of Hugging Face is no misspelling
    if ours:
        return what, f"Hugging Face's {key} is {ours} here", [ours]
    below = [
        name
        for name, field in fields(cls).items()
        if field.type is None and any(key in fields(cls) for cls in _classes(field.spec))
    ]
    if below:
        return what, f"it belongs under {either(below)}", []
    owners = [kind for kind, sibling in kinds(cls.family).items() if key in fields(sibling)]
    if takes_kind and owners:
        return what, f"a key of {either(owners)}, not of {kind_of(cls)}", []
    close = closest(key, known)
    return what, f"did you mean {either(close)}?" if close else f"known are {', '.join(known)}", close


def belonged_to_another_kind(node: Node, key: str, base: type[Spec]) -> bool:
    """Whether an override changed the kind, so that a key of the file's own kind became unknown."""
    kind, key_node = node.value.get("kind"), node.value[key]
    was_set = kind is not None and kind.where.source.name == SET != key_node.where.source.name
    return was_set and any(key in fields(cls) for cls in choices(base).values())


def _classes(base: type[Spec]) -> list[type[Spec]]:
    return [*choices(base).values()] or [base]


def unknown_kind(kind: Node, family: str, options: Options) -> tuple[str, str]:
    """(problem, hint) for a kind that the family does not have."""
    if not isinstance(kind.value, str):
        return f"kind must be {either(options)}, not {shown(kind)}", ""
    close = closest(kind.value, options)
    meant = MEANT.get(kind.value.lower().replace("_", ""))
    if meant:
        return f"unknown kind {quote(kind.value)} of {family}", f"write {meant}"
    return (
        f"unknown kind {quote(kind.value)} of {family}",
        f"did you mean {either(close)}?" if close else f"one of {', '.join(options)}",
    )


def no_mapping(path: str, node: Node, options: Options) -> tuple[str, str]:
    """(problem, hint) for a module whose value is no mapping."""
    *above, name = path.split(".")
    name = f"{above[-1]}.{name}" if name.isdecimal() else name
    example = f"{{kind: {next(iter(options))}, …}}" if options else ""
    return f"{name} must be a mapping, not {shown(node)}", f"such as {example}" if example else ""


def missing_kind(node: Node, options: Options) -> tuple[str, str]:
    """(problem, hint) for a mapping without a required `kind`."""
    is_set = node.where.source.name == SET
    return "missing key kind", f"one of {', '.join(options)}" + (
        "; nothing is written there that --set could change" if is_set else ""
    )


def missing(field: Field) -> tuple[str, str]:
    """(problem, hint) for a required key that is missing."""
    return (
        f"missing key {field.name}",
        "give it here, or once at the top of the file" if field.inherits else "",
    )
