"""`archcli list`: the presets."""

from __future__ import annotations

from archcli.api.presets import PresetsOptions, presets
from archcli.commands.line.options import Form, Json, Output, asking
from archcli.render import show


@asking(PresetsOptions)
def run(options: PresetsOptions, *, form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """List the presets with their size, attention and cache per token.

    --where takes any column of `archcli survey`: `params>10B`, `active<=8e9`, `kv_bytes_per_token<100KiB`,
    `series=llama`, `released>=2024`, `attention=mla`, `params in 7B..9B`, `params/active_params > 3`.
    """
    show(presets(options.where, options.sort), form, output, as_json=as_json)
