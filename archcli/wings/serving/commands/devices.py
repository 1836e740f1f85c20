"""`archcli devices`: GPUs and other devices, with their memory and rates."""

from __future__ import annotations

from typing import Annotated

from archcli.api.asking.question import Option
from archcli.commands.line.options import Form, Json, Output, asking
from archcli.errors import ArchError
from archcli.render import show, write
from archcli.wings.serving.api.devices import DevicesOptions, devices

This = Annotated[
    bool,
    Option(
        "Write this machine's own YAML, from what its drivers say: -o mine.yaml, then --device ./mine.yaml."
    ),
]


@asking(DevicesOptions)
def run(
    options: DevicesOptions,
    *,
    this: This = False,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """List GPUs and other devices, or show one with its sources."""
    if this:
        if options != DevicesOptions() or form is not None or as_json:
            raise ArchError(
                "--this writes a YAML of this machine, and takes -o FILE alone", "leave the rest out"
            )
        from archcli.wings.serving.devices.this import this_machine  # asks drivers

        write(this_machine(), output)
        return
    show(devices(options.device, options.where, options.sort), form, output, as_json=as_json)
