"""`archcli explain`: where a number comes from, as a formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from archcli.api.asking.question import Option
from archcli.api.asking.subject import subject
from archcli.commands.line.options import Json, Output, Set, asking
from archcli.render import BY_SUFFIX, chosen_format, show
from archcli.wings.shapes.api.explain import ExplainOptions, explained

SUFFIXES = {**BY_SUFFIX, ".tex": ("latex",)}
FormOrLatex = Annotated[
    Literal["table", "json", "csv", "md", "plain", "svg", "latex"] | None,
    Option(
        "Without it: table on a terminal, plain into a pipe, and into a file what its suffix says.",
        name="format",
    ),
]


@asking(ExplainOptions)
def run(
    options: ExplainOptions,
    *,
    overrides: Set = None,
    form: FormOrLatex = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Explain a number: the architecture's formula, by component.

    The formula is derived by running the architecture's own forward on symbols. Below it stands the same
    line with the model's numbers, and their exact value. Needs sympy.
    """
    loaded = subject(options.model, overrides)
    chosen = chosen_format(form, output, as_json=as_json, suffixes=SUFFIXES)
    show(explained(loaded, replace(options, latex=chosen == "latex")), chosen, output)
