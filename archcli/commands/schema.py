"""`archcli schema`: the JSON Schemas of the YAML and of a profile's JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from archcli.commands.line.options import Form, Json, Output
from archcli.measure.report import Column, Report, Table
from archcli.render import chosen_format, show, write

YAML = (
    "A key without a default must be given, by the layer itself or by what it shares with others; "
    "`kind` picks the class."
)
PROFILE = (
    "A record has the keys named here and no others; one that is not always there is there where its "
    "meaning says."
)
Of = Annotated[
    Literal["yaml", "profile"],
    typer.Option("--of", help="The YAML, or the JSON that profile prints and plot reads."),
]


def run(of: Of = "yaml", form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """Print the JSON Schema of the YAML, or of a profile's JSON.

    Editors complete and check a YAML by it. --of profile prints that of `archcli profile --json`, with
    the meaning and unit of every key. In a format other than json it is a table of all keys.
    """
    chosen = chosen_format(form, output, as_json=as_json)
    schema, table = _profile() if of == "profile" else _yaml()
    if chosen in {None, "json"}:
        write(json.dumps(schema, indent=2) + "\n", output)
    else:
        show(table, chosen, output)


def _yaml() -> tuple[dict[str, Any], Report]:
    from archcli.load.spec.schema import json_schema, rows

    return json_schema(), _table(YAML, list(rows()), ("class", "kind", "key", "takes", "default", "meaning"))


def _profile() -> tuple[dict[str, Any], Report]:
    from archcli.measure.profile.schema import json_schema, keys

    return json_schema(), _table(PROFILE, list(keys()), ("record", "key", "takes", "always", "meaning"))


def _table(convention: str, keys: list[dict[str, Any]], titles: Sequence[str]) -> Report:
    columns = [Column(title, title) for title in titles]
    return Report("schema", {}, {}, convention, {"keys": len(keys)}, keys, (Table("", columns, keys),))
