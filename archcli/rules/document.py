"""A rule as text for people: what `archcli rule` prints and what the page of all rules is made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.rules.base import Rule


def as_record(rule: Rule) -> dict[str, Any]:
    """Everything a rule states of itself."""
    return {
        "code": rule.code,
        "severity": str(rule.severity),
        "title": rule.title,
        "reason": rule.reason,
        "source": rule.source,
        "spares": rule.spares,
        "evidence": rule.evidence,
        "valid": list(rule.valid),
        "invalid": list(rule.invalid),
    }


def as_markdown(rule: Rule) -> str:
    """One section of Markdown, which reads well as plain text, too."""
    return "\n\n".join(_paragraphs(rule)) + "\n"


def _paragraphs(rule: Rule) -> Iterator[str]:
    yield f"## {rule.code}: {rule.title}"
    yield f"*{rule.severity}*"
    yield rule.reason
    if rule.spares:
        yield f"**Does not apply:** {rule.spares}"
    yield f"**Source:** {rule.source}"
    if rule.known:
        yield "**Known exceptions among the presets:** " + "; ".join(f"{name}: {why}" for name, why in sorted(rule.known.items()))
    yield from (f"Passes:\n\n```yaml\n{text}```" for text in rule.valid)
    yield from (f"Stops:\n\n```yaml\n{text}```" for text in rule.invalid)
