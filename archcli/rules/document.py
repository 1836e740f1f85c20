"""A rule as Markdown: what `archcli rule` prints and docs/rules.md consists of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from archcli.rules.base import DesignRule, example

CERTAINTY = """\
Behind a source stands how sure it is: *confirmed*, the figure was read there (*id confirmed*: the paper was
found under this id); *derived*, worked out from confirmed figures; *corrected*, a commonly quoted figure
differs; *slide*, only seen in a lecture; *secondary*, only seen in a text that cites it; *not checked*.
"""
INTRODUCTION = f"""# Rules

What `archcli check` asks of an architecture, made from the rules themselves. An error no model could mean;
of a warning a reviewer would ask; information is worth knowing and fails nothing. Examples are changes of
this model, which has no error and no warning:

```yaml
{example()}```

{CERTAINTY}"""
EXAMPLE = f"""{CERTAINTY}
The examples are changes of this model, which has no error and no warning:

```yaml
{example()}```
"""


def as_answer(rule: DesignRule, among: str = "") -> str:
    """A rule as `archcli rule` prints it: its section, and the model that its examples change."""
    return f"{as_markdown(rule, among)}\n{EXAMPLE}"


def spared(rule: DesignRule) -> str:
    """What a rule does not apply to, in words."""
    scopes = ["encoders of images and sounds"] * rule.of_text
    scopes += ["models with layers of several widths (DaViT)"] * rule.of_width
    return "; ".join([rule.spares] * bool(rule.spares) + scopes)


def as_record(rule: DesignRule) -> dict[str, Any]:
    """A rule as a JSON record."""
    return {
        "code": rule.code,
        "severity": str(rule.severity),
        "title": rule.title,
        "reason": rule.reason,
        "source": rule.source,
        "spares": spared(rule),
        "evidence": rule.evidence,
        "year": rule.year or None,
        "known": dict(rule.known),
        "valid": list(rule.valid),
        "invalid": list(rule.invalid),
    }


def as_page(rules: Iterable[DesignRule]) -> str:
    """All rules on a page: a table, then a section for each rule."""
    rules = list(rules)
    table = ["| code | severity | rule |", "|---|---|---|"]
    table += [f"| [{rule.code}](#{_anchor(rule)}) | {rule.severity} | {rule.title} |" for rule in rules]
    return "\n".join([INTRODUCTION, *table, "", *(as_markdown(rule) for rule in rules)])


def _anchor(rule: DesignRule) -> str:
    """The anchor that GitHub gives the heading."""
    # GitHub drops signs and turns blanks into dashes
    kept = [c for c in f"{rule.code}: {rule.title}".lower() if c.isalnum() or c in " -_"]
    return "".join(kept).replace(" ", "-")


def as_markdown(rule: DesignRule, among: str = "") -> str:
    """A rule as a Markdown section; `among` states the spread of its value over the presets."""
    return "\n\n".join(_paragraphs(rule, among)) + "\n"


def _paragraphs(rule: DesignRule, among: str) -> Iterator[str]:
    yield f"## {rule.code}: {rule.title}"
    yield f"*{rule.severity}*"
    yield rule.reason
    if rule.year:
        yield f"**Judges by:** what new models have in common, as of {rule.year}"
    if spares := spared(rule):
        yield f"**Does not apply to:** {spares}"
    yield f"**Source:** {rule.source}"
    if among or rule.evidence:
        named = f"{rule.evidence} of the presets, which every finding names: percentile and nearest models"
        yield f"**Evidence:** {among or named}"
    if rule.known:
        yield "**Known exceptions among the presets:** " + "; ".join(
            f"{name}: {why}" for name, why in sorted(rule.known.items())
        )
    passing = [text for text in map(_changed, rule.valid) if text]
    yield _examples("Passes:", passing or ["# the model unchanged"])
    yield _examples("Does not pass:", map(_changed, rule.invalid))


def _examples(title: str, texts: Iterable[str]) -> str:
    """YAML blocks below a title."""
    return "\n\n".join([title, *(f"```yaml\n{text}\n```" for text in texts)])


def _changed(text: str) -> str:
    """The lines in which an example differs from the sound example."""
    usual = set(example().splitlines())
    return "\n".join(line.strip() for line in text.splitlines() if line not in usual)
