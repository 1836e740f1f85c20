"""`archcli schema`: the JSON Schemas of the YAML and of a profile's JSON."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from archcli.api.asking.question import Option
from archcli.api.schema import schema_of_profile, schema_of_yaml
from archcli.commands.line.options import Form, Json, Output
from archcli.render import chosen_format, show, write

Of = Annotated[
    Literal["yaml", "profile"],
    Option("The YAML, or the JSON that profile prints and plot reads."),
]


def run(of: Of = "yaml", form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """Print the JSON Schema of the YAML, or of a profile's JSON.

    Editors complete and check a YAML by it. --of profile prints that of `archcli profile --json`, with
    the meaning and unit of every key. In a format other than json it is a table of all keys.
    """
    chosen = chosen_format(form, output, as_json=as_json)
    schema, table = schema_of_profile() if of == "profile" else schema_of_yaml()
    if chosen in {None, "json"}:
        write(json.dumps(schema, indent=2) + "\n", output)
    else:
        show(table, chosen, output)
