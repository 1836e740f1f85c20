"""`archcli scale`: the nearest good shape of a family at another size, or for a budget of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archcli.api.arguments import record_of
from archcli.api.scale import scaled
from archcli.api.subject import subject
from archcli.commands.line import completion
from archcli.commands.line.options import Form, Json, Model, Output, Set, Tokens, size_from
from archcli.measure.scale.laws import DEFAULT_LAW, LawName
from archcli.measure.scale.question import DEFAULT_BATCH, ScaleSettings
from archcli.render import show
from archcli.render.write import check_writable, tell, write

Params = Annotated[
    int | None,
    typer.Option(
        "--params",
        metavar="N",
        parser=size_from(1),
        help="Parameters of the result, all of them also of a mixture: 3e9, 3B.",
    ),
]
Compute = Annotated[
    int | None,
    typer.Option(
        "--compute",
        metavar="FLOPS",
        parser=size_from(1),
        help="FLOPs of a whole training: scale to the size that a law says is best. 1e21.",
    ),
]
Hours = Annotated[
    float | None,
    typer.Option(
        "--hours",
        metavar="HOURS",
        help="Hours of training on --device: scale to the size that a law says is best.",
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="[Nx]NAME",
        autocompletion=completion.devices,
        help="Of `archcli devices`: 8xh100-sxm. Without it no days are predicted.",
    ),
]
LawOption = Annotated[
    LawName, typer.Option("--law", help="Scaling law that splits the budget between parameters and tokens.")
]
BatchTokens = Annotated[
    int,
    typer.Option(
        "--batch-tokens", metavar="N", parser=size_from(1), help="Tokens of a training step, of all devices."
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="NAME", help="A size that stays as it is: n_kv_heads. Repeatable."),
]
YamlFile = Annotated[
    Path | None,
    typer.Option("--write-yaml", metavar="FILE", help="Write the shape as YAML, for every other command."),
]


def run(  # noqa: PLR0913
    model: Model,
    *,
    params: Params = None,
    compute: Compute = None,
    hours: Hours = None,
    device: DeviceOption = None,
    law: LawOption = DEFAULT_LAW,
    batch_tokens: BatchTokens = DEFAULT_BATCH,
    seq_len: Tokens = None,
    keep: Keep = None,
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
    settings = record_of(ScaleSettings, {**locals(), "keep": tuple(keep or ())})
    check_writable(write_yaml)
    answer = scaled(subject(model, overrides), settings, device)
    if write_yaml is not None:
        write(answer.yaml, write_yaml)
        tell(f"note: {write_yaml} has the shape")
    show(answer.report, form, output, as_json=as_json)
