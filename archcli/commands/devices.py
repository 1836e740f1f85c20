"""`archcli devices`: GPUs and their like, with what they hold and do."""

from __future__ import annotations

from archcli.api.devices import DevicesOptions, devices
from archcli.commands.line.options import Form, Json, Output, asking
from archcli.render import show


@asking(DevicesOptions)
def run(options: DevicesOptions, *, form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """List GPUs and other devices, or show one with its sources."""
    show(devices(options.device, options.where, options.sort), form, output, as_json=as_json)
