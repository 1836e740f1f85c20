"""`archcli explain`: where a number comes from, as a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from archcli.api.explain import explained
from archcli.api.subject import subject
from archcli.commands.line.options import Json, Model, Output, Past, Set, SourceLen, length, size
from archcli.modules.spec import arguments
from archcli.modules.spec.request import Logits, Phase
from archcli.render import BY_SUFFIX, chosen_format, show

SUFFIXES = {**BY_SUFFIX, ".tex": ("latex",)}
FormOrLatex = Annotated[
    Literal["table", "json", "csv", "md", "plain", "svg", "latex"] | None,
    typer.Option(
        "--format",
        help="Without it: table on a terminal, plain into a pipe, and into a file what its suffix says.",
    ),
]
QuantityArgument = Annotated[
    arguments.Quantity, typer.Argument(metavar="params|flops|kvcache", help="What the formula is of.")
]
NAMES = "NAME[,NAME]"
Symbols = Annotated[
    list[str] | None,
    typer.Option(
        "--symbols", metavar=NAMES, help="Keep these sizes as symbols, the others as numbers. Repeatable."
    ),
]
At = Annotated[
    list[str] | None,
    typer.Option(
        "--at", metavar=NAMES, help="Tell how the total grows with this size, at its value. Repeatable."
    ),
]


def run(  # noqa: PLR0913
    model: Model,
    quantity: QuantityArgument = "params",
    *,
    steps: Annotated[
        bool, typer.Option("--steps", help="Show each component's way to its number, operation by operation.")
    ] = False,
    approx: Annotated[
        bool,
        typer.Option("--approx", help="Show what textbooks approximate it by, and by how much they err."),
    ] = False,
    at: At = None,
    symbols: Symbols = None,
    phase: Annotated[Phase | None, typer.Option(help="The pass of flops. [default: forward]")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", "-b", metavar="N", parser=size("batch_size"), help="Sequences. [default: 1]"
        ),
    ] = None,
    seq_len: Annotated[
        int | None,
        typer.Option(
            "--seq-len",
            "-s",
            metavar="N",
            parser=length("seq_len"),
            help="New tokens of flops. [default: 2048]",
        ),
    ] = None,
    past: Past = None,
    source_len: SourceLen = None,
    context: Annotated[
        int | None,
        typer.Option(
            "--context",
            "-c",
            metavar="N",
            parser=length("context"),
            help="Tokens of kvcache. [default: max_seq_len, else 2048]",
        ),
    ] = None,
    mask: Annotated[
        arguments.CountedPairs | None,
        typer.Option(help="Scores that the mask allows, or all S x S. [default: exact]"),
    ] = None,
    logits: Annotated[
        Logits | None,
        typer.Option(help="Logits of every position or of the last. [default: as in archcli flops]"),
    ] = None,
    mla: Annotated[
        arguments.Mla | None, typer.Option(help="The form of latent attention, as in archcli flops.")
    ] = None,
    scan: Annotated[
        arguments.Scan | None, typer.Option(help="The form of recurrent layers, as in archcli flops.")
    ] = None,
    overrides: Set = None,
    form: FormOrLatex = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Explain a number: the architecture's formula, by component.

    The formula is derived by running the architecture's own forward on symbols. Below it stands the same
    line with the model's numbers, and their exact value. Needs sympy.
    """
    asked = subject(model, overrides)
    chosen = chosen_format(form, output, as_json=as_json, suffixes=SUFFIXES)
    options: dict[str, Any] = {
        "phase": phase,
        "batch_size": batch_size,
        "seq_len": seq_len,
        "past": past,
        "source_len": source_len,
        "context": context,
        "mask": mask,
        "logits": logits,
        "mla": mla,
        "scan": scan,
    }
    told = {"symbols": _names(symbols), "at": _names(at), "approx": approx, "steps": steps}
    report = explained(asked, quantity, options, **told, latex=chosen == "latex")
    show(asked.named(report), chosen, output)


def _names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Names of an option that is repeated, or that holds several with commas between."""
    return tuple(name.strip() for text in given or () for name in text.split(",") if name.strip())
