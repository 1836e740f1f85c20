"""Draws the gallery: a page of docs/ with a small drawing of every preset, by kind, and its figures.

    python release/gallery.py

writes docs/gallery.md and docs/pictures/gallery/NAME.svg. Both are as archcli draws and counts now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from archcli.load.presets import preset_records
from archcli.load.source import load
from archcli.measure.survey.columns import COLUMNS
from archcli.render.values import exact, short
from archcli.wings.drawing.anatomy.anatomy import anatomy
from archcli.wings.drawing.picture.architecture.page.thumbnail import thumbnail

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "pictures" / "gallery"
SOFTMAX = {"mha", "gqa", "mqa", "mla", "cross", "moa", "disentangled"}
"""Kinds of attention whose cache grows; any other mixer carries a state."""
HEADS = (
    ("preset", "{name}"),
    ("released", "{released}"),
    ("parameters", "{params}"),
    ("active", "{active_params}"),
    ("layers", "{layers}"),
    ("d_model", "{d_model}"),
    ("attention", "{attention}"),
    ("experts", "{experts}"),
    ("cache per token", "{cache}"),
)
"""Columns of the figures below the drawings."""
SECTIONS = {
    "Grouped-query attention": "Decoders whose queries share keys and values in groups.",
    "Multi-head attention": "Decoders where each head has keys and values of its own.",
    "Multi-query attention": "Decoders where all heads share one key and value.",
    "Mixtures of experts": "A token reads a few of many networks: the filled share of the bar.",
    "Latent attention": "The cache holds one narrow latent for all heads.",
    "Hybrids": "Attention in some layers or heads, a state that does not grow in the others.",
    "Recurrent layers": "No cache that grows: states alone, hatched.",
    "Encoders": "Every token reads every other.",
    "Encoder-decoders": "A decoder that reads an encoder, on the left.",
}
INTRODUCTION = """# Gallery

Every preset as [`archcli draw`](commands/draw.md) draws it, small: its layers from left to right, the mixer
above and the network below, and what a token reads by component. Blue is attention, hatched green a recurrent
layer, ochre a dense network, orange routed experts, violet the expert that all tokens pass, grey tables and
the head. A drawing leads to its figures; `archcli draw NAME -o NAME.svg` draws it in full, to scale.

Made by `python release/gallery.py`.
"""
Record = Mapping[str, Any]


def records() -> list[Record]:
    """What is known of every preset, by name."""
    return sorted(preset_records(COLUMNS), key=lambda record: record["name"])


def section_of(record: Record) -> str:
    """The section in which a preset stands."""
    words = record["attention"].replace("+", " ").replace(",", " ").split()
    mixers = {word for word in words if not word.startswith("×")} - {"none"}
    if record["kind"] != "decoder":
        return "Encoders" if record["kind"] == "encoder" else "Encoder-decoders"
    if mixers - SOFTMAX:
        return "Hybrids" if mixers & SOFTMAX else "Recurrent layers"
    if "mla" in mixers:
        return "Latent attention"
    if record["n_experts"]:
        return "Mixtures of experts"
    named = {"mha": "Multi-head attention", "mqa": "Multi-query attention"}
    return named.get(record["attention"], "Grouped-query attention")


def page(presets: Sequence[Record]) -> str:
    """The page: a section for each kind, its drawings, and a table of their figures."""
    parts = [INTRODUCTION]
    for title, meaning in SECTIONS.items():
        listed = [record for record in presets if section_of(record) == title]
        parts += [f"## {title}\n", f"{meaning}\n", *map(_drawing, listed), "", *_table(listed), ""]
    return "\n".join(parts)


def _drawing(record: Record) -> str:
    name = record["name"]
    return f"[![{name}: its layers, and what a token reads](pictures/gallery/{name}.svg)](#{name})"


def _table(listed: Sequence[Record]) -> Iterator[str]:
    yield f"| {' | '.join(head for head, _ in HEADS)} |"
    yield "|---" * len(HEADS) + "|"
    for record in listed:
        cells = (form.format(**_texts(record)) for _, form in HEADS)
        yield f"| {' | '.join(cells)} |"


def _texts(record: Record) -> dict[str, str]:
    """A preset's figures as text."""
    name = record["name"]
    chosen = f"{record['top_k']} of {record['n_experts']}" if record["n_experts"] else "-"
    cache = record["kv_bytes_per_token"]
    counts = {key: short(record[key], "count") for key in ("params", "active_params")}
    return {
        "name": f'<a id="{name}"></a>`{name}`',
        "released": str(record["released"] or "-"),
        "layers": exact(record["layers"], "number"),
        "d_model": exact(record["d_model"], "number"),
        "attention": str(record["attention"]),
        "experts": chosen,
        "cache": short(cache, "bytes") if cache else "-",
        **counts,
    }


def drawing_of(name: str) -> str:
    """The small drawing of a preset as SVG."""
    return thumbnail(anatomy(load(name).model))


def main() -> None:
    """Write the page and the drawings; drawings of presets that are gone are removed."""
    presets = records()
    PICTURES.mkdir(parents=True, exist_ok=True)
    for path in PICTURES.glob("*.svg"):
        path.unlink()
    for record in presets:
        (PICTURES / f"{record['name']}.svg").write_text(drawing_of(record["name"]))
    (DOCS / "gallery.md").write_text(page(presets))


if __name__ == "__main__":
    main()
