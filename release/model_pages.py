"""Pages of the site for each preset: its full drawing, figures, findings, source, and what it changed.

They are made when the site is built (release/docs_site.py), from what the commands answer: `draw`, `check`
and `compare`. The gallery of the site leads to them; docs/gallery.md is the gallery of a repository.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import log
from pathlib import Path
from typing import Any

import archcli
import gallery
from archcli.load.source import load
from archcli.render.values import exact, short

MOST_DIFFERENCES = 24
"""Rows of the table of settings that differ from a forebear's."""
SIZES = (
    (1e9, "below 1B"),
    (4e9, "1B to 4B"),
    (10e9, "4B to 10B"),
    (40e9, "10B to 40B"),
    (150e9, "40B to 150B"),
)
LARGEST = "150B and more"
MAKERS = Path(__file__).with_name("makers.csv")
"""Who made the models whose names begin so; the longest beginning counts."""
INTRODUCTION = """# Gallery

{count} models as [`archcli draw`](commands/draw.md) draws them, small: layers from left to right, the mixer
above and the network below, and what a token reads by component. Blue is attention, hatched green a recurrent
layer, ochre a dense network, orange routed experts, violet the expert that all tokens pass, grey tables and
the head. Each leads to its page: the full drawing to scale, figures, findings of `check`, source, and what it
changed.

[Two side by side](gallery/compare.md)

<div id="filters"></div>
"""
COMPARE = """# Two models side by side

<div id="two" markdown>

`archcli draw llama-3.1-8b qwen3-8b -o two.svg` draws two to four models in one picture, and
[`archcli compare llama-3.1-8b qwen3-8b`](../commands/compare.md) has what differs, and what it costs. With
JavaScript this page shows any two of [the gallery](../gallery.md).

</div>

<script type="application/json" id="names">{names}</script>
<script src="../gallery.js"></script>
"""
Record = Mapping[str, Any]


def size_of(record: Record) -> str:
    """The size class of a preset, by all its parameters."""
    return next((name for limit, name in SIZES if record["params"] < limit), LARGEST)


def company_of(record: Record) -> str:
    """Who made a preset's model. Raises ValueError where makers.csv names nobody."""
    with MAKERS.open(newline="") as file:
        makers = {row["name"]: row["maker"] for row in csv.DictReader(file)}
    return makers[max((name for name in makers if record["name"].startswith(name)), key=len)]


def forebear(record: Record, records: Sequence[Record]) -> Record | None:
    """The latest earlier model of the series and kind, the nearest in size; None where no preset is one.

    Models with encoders of images or sounds have such a one before them.
    """
    earlier = [
        other
        for other in records
        if other["series"] == record["series"]
        and other["kind"] == record["kind"]
        and bool(other["media"]) == bool(record["media"])
        and str(other["released"]) < str(record["released"])
    ]
    latest = max((str(other["released"]) for other in earlier), default="")
    ratio = {other["name"]: abs(log(other["params"] / record["params"])) for other in earlier}
    of_that_day = [other for other in earlier if str(other["released"]) == latest]
    return min(of_that_day, key=lambda other: (ratio[other["name"]], other["name"]), default=None)


# --- the page of a model


def model_page(record: Record, records: Sequence[Record]) -> str:
    """The page of a preset, in Markdown."""
    name, earlier = record["name"], forebear(record, records)
    beside = earlier["name"] if earlier else records[records.index(record) - 1]["name"]
    return "\n".join(
        [
            f"# {name}\n",
            f"{_way(record, records)}\n",
            *_figures(record),
            f'\n<div class="picture" tabindex="0" markdown>\n\n{_picture(name)}\n\n</div>\n',
            _doors(name, beside),
            "## What `check` says\n",
            *_findings(name),
            "\n## Source\n",
            *_source(record),
            "\n## What it changed\n",
            *_changes(record, earlier),
            "",
        ]
    )


def _doors(name: str, beside: str) -> str:
    """Links to Try it with this model, and to its drawing beside another's."""
    asked = f"[Try it](../try/index.html#model={name}&tab=fit)"
    both = f'<a href="compare/#{name},{beside}">Beside {beside}</a>'
    return f'<div class="doors" markdown>\n\n{asked}\n{both}\n\n</div>\n'


def _way(record: Record, records: Sequence[Record]) -> str:
    """Links to the gallery, and to the models before and behind this one in it."""
    at = records.index(record)
    links = ["[Gallery](../gallery.md)"]
    links += [f"← [{other['name']}]({other['name']}.md)" for other in records[max(at - 1, 0) : at]]
    links += [f"[{other['name']}]({other['name']}.md) →" for other in records[at + 1 : at + 2]]
    return " · ".join(links)


def _picture(name: str) -> str:
    alt = f"{name} to scale: its layers, what each kind is made of, and where its parameters are"
    return f"[![{alt}]({name}.svg){{ loading=lazy }}]({name}.svg)"


def _figures(record: Record) -> Iterator[str]:
    context, cache = record["max_seq_len"], record["kv_bytes_per_token"]
    figures = {
        "parameters": f"{exact(record['params'], 'number')} ({short(record['params'], 'count')})",
        "active": short(record["active_params"], "count"),
        "layers": exact(record["layers"], "number"),
        "d_model": exact(record["d_model"], "number"),
        "attention": record["attention"],
        "experts": f"{record['top_k']} of {record['n_experts']}" if record["n_experts"] else "-",
        "cache per token": short(cache, "bytes") if cache else "-",
        "context": exact(context, "number") if context else "-",
        "released": record["released"] or "-",
    }
    yield f"| {' | '.join(figures)} |"
    yield "|---" * len(figures) + "|"
    yield f"| {' | '.join(_cell(value) for value in figures.values())} |"


def _cell(value: Any) -> str:
    """A value for a cell of a table."""
    return "-" if value is None else str(value).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _findings(name: str) -> Iterator[str]:
    rows = archcli.check(name).rows
    if not rows:
        yield f"Nothing: `archcli check {name}` has no findings."
        return
    yield "| rule | severity | finding | expected |"
    yield "|---|---|---|---|"
    for row in rows:
        rule = f"[{row['code']}](../rules/{row['code'].lower()}.md)"
        yield f"| {rule} | {row['severity']} | {_cell(row['message'])} | {_cell(row['expected'])} |"


def _source(record: Record) -> Iterator[str]:
    source = record["source"]
    shown = f"<{source}>" if source.startswith("https://") else source
    made = f"by {company_of(record)}, released {record['released']}, of the series {record['series']}"
    yield f"{shown}, {made}."
    yield "The preset states no licence; look for it at the source."
    stated = (load(record["name"]).model.published or {}).get("params")
    if stated == record["params"]:
        yield f"Its published parameters, {stated:,}, are those counted."
    elif stated:
        shown = stated if isinstance(stated, str) else f"{stated:,}"
        yield f"Published as {shown} parameters; {record['params']:,} are counted."


def _changes(record: Record, earlier: Record | None) -> Iterator[str]:
    if earlier is None:
        yield f"No forebear is known: no preset of the series {record['series']} of this kind is older."
        return
    name, before = record["name"], earlier["name"]
    report = archcli.compare(before, name)
    costs = report.headline.partition(": ")[2]
    costs = "the figures are the same" if costs == "all the same" else costs
    of = f"[{before}]({before}.md) of {earlier['released']}, the latest earlier preset of its series"
    yield f"Beside {of}: {costs}.\n"
    rows = [row for row in report.rows if row["section"] == "YAML"]
    if rows:
        yield f"| setting | {before} | {name} |"
        yield "|---|---|---|"
    for row in rows[:MOST_DIFFERENCES]:
        yield f"| `{row['key']}` | {_cell(row['value_1'])} | {_cell(row['value_2'])} |"
    more = f", with {len(rows) - MOST_DIFFERENCES} more settings" * (len(rows) > MOST_DIFFERENCES)
    yield f"\n`archcli compare {before} {name}` says what it costs{more}."


# --- the gallery


def gallery_page(records: Sequence[Record]) -> str:
    """The gallery of the site: a card for each preset by kind, lists by size, year and company."""
    parts = [INTRODUCTION.format(count=len(records))]
    for title, meaning in gallery.SECTIONS.items():
        cards = [_card(record, title) for record in records if gallery.section_of(record) == title]
        parts += [f"## {title}\n", f"{meaning}\n", f'<ul class="models">{"".join(cards)}</ul>\n']
    parts += ["## By size\n", *_lists(records, size_of, [*(name for _, name in SIZES), LARGEST])]
    years = sorted({str(record["year"]) for record in records}, reverse=True)
    parts += ["## By year\n", *_lists(records, lambda record: str(record["year"]), years)]
    companies = sorted({company_of(record) for record in records})
    parts += ["## By company\n", *_lists(records, company_of, companies)]
    return "\n".join([*parts, '<script src="gallery.js"></script>\n'])


def _card(record: Record, kind: str) -> str:
    """A model's card in HTML, with what the filters ask for."""
    name = escape(record["name"])
    values = {
        "kind": kind,
        "size": size_of(record),
        "year": record["year"],
        "company": company_of(record),
        "params": record["params"],
        "released": record["released"],
    }
    data = " ".join(f'data-{key}="{escape(str(value))}"' for key, value in values.items())
    facts = " · ".join([short(record["params"], "count"), str(record["attention"]), str(record["released"])])
    return (
        f'<li id="{name}" data-name="{name}" {data}><a href="gallery/{name}/">'
        f'<img src="pictures/gallery/{name}.svg" alt="" loading="lazy" width="300" height="132">'
        f"<b>{name}</b></a><span>{escape(facts)}</span></li>"
    )


def _lists(records: Sequence[Record], group: Any, names: Sequence[str]) -> Iterator[str]:
    """A line of links for each group."""
    for name in names:
        members = [record["name"] for record in records if group(record) == name]
        yield f"**{name}**: {', '.join(f'[{member}](gallery/{member}.md)' for member in members)}\n"


def write_models(docs: Path) -> None:
    """Write into a copy of docs/ the gallery, and the page and the drawing of every preset."""
    records = gallery.records()
    folder = docs / "gallery"
    folder.mkdir()
    (docs / "gallery.md").write_text(gallery_page(records))
    (folder / "compare.md").write_text(
        COMPARE.format(names=json.dumps([record["name"] for record in records]))
    )
    for record in records:
        archcli.draw(record["name"]).save(folder / f"{record['name']}.svg")
        (folder / f"{record['name']}.md").write_text(model_page(record, records))
