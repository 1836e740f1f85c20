"""`archcli families`: the model types that are read from a config.json, a line each."""

from __future__ import annotations

from archcli.commands.options import Form, Json, Output
from archcli.load.huggingface.importer import described
from archcli.load.huggingface.wrappers.table import WRAPPERS
from archcli.measure.report import Column, Report, Table
from archcli.render import show

CONVENTION = (
    "model_type is a key of config.json. Of a wrapper the language model is counted, head included, and not "
    "the towers beside it; its text part may be of any family where that says so."
)


def run(form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """List the Hugging Face model types that are read, wrappers included."""
    rows = [{"model_type": kind, "form": "model", "what": what} for kind, what in described().items()]
    for kind, wrapper in WRAPPERS.items():
        inner = f"{wrapper.text} or another" if wrapper.any_text else wrapper.text
        rows.append({"model_type": kind, "form": "wrapper", "what": f"{wrapper.key}: {inner}"})
    rows.sort(key=lambda row: row["model_type"].lower())
    columns = (Column("model_type", "model_type"), Column("form", "form"), Column("what", "what it is"))
    totals = {"families": len(rows) - len(WRAPPERS), "wrappers": len(WRAPPERS)}
    table = Table("", columns, rows)
    show(Report("families", {}, {}, CONVENTION, totals, rows, (table,)), form, output, as_json=as_json)
