"""`archcli schema`: the grammar of the YAML."""

from __future__ import annotations

import json

from archcli.commands.options import Form, Json, Output
from archcli.load.schema import json_schema, rows
from archcli.measure.report import Column, Report, Table
from archcli.render import show, write

CONVENTION = "A key without a default must be given, by the layer itself or by what it shares with others; `kind` picks the class."


def run(form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """Print the JSON Schema of the YAML, with which an editor completes and checks it; or, in another format, a table of all keys."""
    if as_json or form in {None, "json"}:
        write(json.dumps(json_schema(), indent=2) + "\n", output)
    else:
        show(_table(), form, output)


def _table() -> Report:
    keys = list(rows())
    titles = {"class": "class", "kind": "kind", "key": "key", "takes": "takes", "default": "default", "meaning": "meaning"}
    columns = [Column(key, title) for key, title in titles.items()]
    return Report("schema", {}, {}, CONVENTION, {"keys": len(keys)}, keys, (Table("", columns, keys),))
