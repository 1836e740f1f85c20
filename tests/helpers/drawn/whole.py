"""What runs and is not in a drawing, and what a drawing joins that is not joined."""

import re
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
INSIDE = re.compile(r".*?layers\.\d+\.")
"""The way to a layer: parts that several layers share are drawn once."""
POSITIONS = ("Sinusoid", "RotaryTable", "GridRotaryTable")
"""Operations that tell a token's place, and have neither weights nor a cache."""

VIEWS = ("Rotate", "SplitHeads", "Split", "Unsqueeze", "Scale")
"""Operations that a bar of their input shows: what reads them may be drawn to read what stands on the bar."""


def left_out(svg, show):
    """Rows of `show` with parameters, a cache, a position or a mark that no text and no tooltip has."""
    root = ET.fromstring(svg)  # noqa: S314 - a drawing of ours
    tooltips = {
        INSIDE.sub("", row) for title in root.iter(f"{SVG}title") for row in (title.text or "").split(", ")
    }
    texts = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    for row in show["rows"]:
        costs = row["params"] or row["cached"] or row["op"] in POSITIONS
        said = row["marks"] and all(mark in texts for mark in row["marks"])
        if row["marks"] and not said:
            yield row["id"], row["marks"]
        elif costs and not said and INSIDE.sub("", row["id"]) not in tooltips:
            yield row["id"], row["op"]


def joined_wrongly(nodes, rows):
    """(node, what it is drawn to read) where no row of the node reads that, by way of rows not drawn."""
    drawn = {row: node.id for node in nodes for row in node.rows}
    ids = [row for node in nodes if node.role != "input" for row in node.rows]
    first, last = min(ids), max(ids)
    inside = first[
        : next((i for i, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), len(first))
    ]
    for node in nodes:
        reached = {name for row in node.rows for name in _sources(row, node.id, rows, drawn, inside)}
        yield from ((node.id, read) for read in node.reads if node.rows and read not in reached)


def _sources(row, node, rows, drawn, inside):
    """The nodes whose rows a row reads, past rows of no node, of the same, and views of another."""
    waiting, seen = [row], set()
    while waiting:
        row = waiting.pop()
        for read in () if row in seen else rows[row]["reads"] or ():
            source = read.partition(":")[0]
            owner = drawn.get(source)
            if owner is None and not source.startswith(inside):
                yield from ("input", f"from {source}")
                continue
            if owner not in (None, node):
                yield owner
            if source in rows and (owner in (None, node) or rows[source]["op"] in VIEWS):
                waiting.append(source)
        seen.add(row)
