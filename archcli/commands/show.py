"""`archcli show`: the forward of an architecture as archcli parsed it."""

from __future__ import annotations

from typing import Annotated, Literal

from archcli.api.asking.modules import ModuleOptions, module_named, of_any
from archcli.api.asking.question import Option
from archcli.api.asking.subject import subject
from archcli.api.show import ShowOptions, shown_forward
from archcli.commands.line.options import Json, Output, Set, asking
from archcli.load.spec.written import to_yaml
from archcli.measure.report import Report
from archcli.render import BY_SUFFIX, chosen_format, show, write

FormOrYaml = Annotated[
    Literal["table", "json", "csv", "md", "plain", "svg", "yaml"] | None,
    Option(
        "Without it: table on a terminal, plain into a pipe, and into a file what its suffix says.",
        name="format",
    ),
]

SUFFIXES = {**BY_SUFFIX, ".yaml": ("yaml",), ".yml": ("yaml",)}


@asking(ShowOptions, ModuleOptions)
def run(
    options: ShowOptions,
    running: ModuleOptions,
    *,
    overrides: Set = None,
    form: FormOrYaml = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Show the forward pass, operation by operation, with shapes.

    With --format yaml, print the architecture as YAML: what archcli read from a config.json or GGUF file.
    """
    chosen = chosen_format(form, output, as_json=as_json, suffixes=SUFFIXES)
    extra = {"set": overrides, "format yaml": chosen == "yaml"}
    if chosen == "yaml" and module_named(str(options.model)) is None:
        model = subject(options.model, overrides).model
        # one key says it: a config.json's form is its quantization as well
        write(to_yaml(model.replace(published_in=None) if model.is_as_published else model), output)
        return

    def answer() -> Report:
        return shown_forward(subject(options.model, overrides), options)

    show(of_any("show", options, running, extra, answer), chosen, output)
