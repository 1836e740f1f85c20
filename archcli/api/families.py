"""families: `archcli families` in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.load.huggingface.registry import listing
from archcli.load.huggingface.wrappers.table import WRAPPERS
from archcli.measure.report import Column, Report, Table

CONVENTION = (
    "model_type is a key of config.json. Of a wrapper the language model is counted, head included, and not "
    "the towers beside it; its text part may be of any family where that says so. Tested equal: what the "
    "tests hold equal to the class in transformers, logits on random weights. Where nothing stands, "
    "transformers has no class, or none that its defaults build."
)
COLUMNS = (
    Column("model_type", "model_type"),
    Column("form", "form"),
    Column("class", "class", minor=True),
    Column("held", "tested equal"),
    Column("what", "what it is", minor=True),
)


def families() -> Report:
    """The Hugging Face model types that are read, wrappers included: the report of `archcli families`.

    Example: `[row["form"] for row in families().rows if row["model_type"] == "llama"][0]` is model.
    """
    rows = family_rows()
    totals = {"families": len(rows) - len(WRAPPERS), "wrappers": len(WRAPPERS)}
    table = Table("", COLUMNS, rows)
    headline = f"{totals['families']:,} model types are read, and {totals['wrappers']:,} wrappers"
    return Report("families", {}, {}, CONVENTION, totals, rows, (table,), headline=headline)


def family_rows() -> list[dict[str, Any]]:
    """A record for each family and each wrapper, by model_type."""
    return sorted(_rows(), key=lambda row: str(row["model_type"]).lower())


def _rows() -> Iterator[dict[str, Any]]:
    known = listing()
    for kind, entry in known.items():
        if kind not in WRAPPERS:
            yield {"model_type": kind, "form": "model", **_held(entry), "what": entry["what"]}
    for kind, wrapper in WRAPPERS.items():
        inner = f"{wrapper.text} or another" if wrapper.any_text else wrapper.text
        what = f"{wrapper.key}: {inner}"
        yield {"model_type": kind, "form": "wrapper", **_held(known.get(kind, {})), "what": what}


def _held(listed: dict[str, Any]) -> dict[str, str]:
    return {"class": ", ".join(listed.get("classes", [])), "held": ", ".join(listed.get("held", []))}
