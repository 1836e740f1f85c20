"""`archcli list`: the presets."""

from __future__ import annotations

from archcli.commands.line.options import Form, Json, Output, Sort, Where
from archcli.load.presets import preset_records
from archcli.measure.survey.columns import COLUMNS
from archcli.measure.survey.presets import list_models
from archcli.render import show


def run(
    where: Where = None, sort: Sort = None, form: Form = None, as_json: Json = False, output: Output = None
) -> None:
    """List the presets with their size, attention and cache per token.

    --where takes any column of `archcli survey`: `params>10B`, `active<=8e9`, `kv_bytes_per_token<100KiB`,
    `series=llama`, `released>=2024`, `attention=mla`, `params in 7B..9B`, `params/active_params > 3`.
    """
    show(list_models(preset_records(COLUMNS), where or (), sort), form, output, as_json=as_json)
