"""`archcli scale`: the nearest good shape of a family at another size, or for a budget of training."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

from archcli.api.asking.question import Option
from archcli.api.asking.subject import subject
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.render import show
from archcli.render.write import check_writable, tell, write
from archcli.wings.shapes.api.scale import ScaleOptions, scaled

YamlFile = Annotated[
    Path | None, Option("Write the shape as YAML, for every other command.", metavar="FILE", writes=True)
]


@asking(ScaleOptions)
def run(
    options: ScaleOptions,
    *,
    write_yaml: YamlFile = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Scale a family to another size: a good shape, and its training.

    One of --params, --compute and --hours says how large. Ratios to d_model, widths of heads, experts and
    patterns of layers stay as in the base; sizes are aligned, and no rule breaks that the base keeps.
    The tokens are those of a published scaling law, or those that the budget pays for.
    """
    # before the search, so that no answer is lost for want of a place
    check_writable(write_yaml)
    answer = scaled(subject(options.model, overrides), options)
    if write_yaml is not None:
        write(answer.yaml, write_yaml)
        tell(f"note: {write_yaml} has the shape; for transformers: archcli export {quote(str(write_yaml))}")
    show(answer.report, form, output, as_json=as_json)
