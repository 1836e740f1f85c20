"""Arguments and options shared by several subcommands.

A command's parameters are annotated with these names; the defaults stand in its signature.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archcli.commands.line import completion
from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.modules.spec import arguments
from archcli.modules.spec.request import Logits, Phase
from archcli.render import Format
from archcli.units import bytes_note, parse_bytes, parse_count, tokens_note


def size(name: str) -> Any:
    """A parser of whole numbers such as 4096, 8k (8,000) and 8K (8,192), within an argument's limits."""
    return lambda text: _parsed(lambda written: arguments.accept(name, parse_count(written)), text)


def length(name: str) -> Any:
    """A parser of numbers of tokens, which notes on standard error that 128k is not 131,072."""

    def parse(text: str) -> int:
        tokens: int = size(name)(text)
        _note(tokens_note(str(text)))
        return tokens

    return parse


def size_from(least: int) -> Any:
    """A parser of whole numbers such as 8k, with a minimum."""

    def parse(text: str) -> int:
        value: int = _parsed(parse_count, text)
        if value < least:
            raise typer.BadParameter(f"{value} is below {least}")
        return value

    return parse


def picture_file(text: str) -> Path:
    """Parse the file of a picture; ArchError, before anything is counted, where it could not be written."""
    from archcli.render.picture import check_picture

    check_picture(Path(text))
    return Path(text)


def _bytes(text: str) -> int:
    """Parse an amount of memory such as 80GiB."""
    amount: int = _parsed(parse_bytes, text)
    _note(bytes_note(str(text)))
    return amount


def _note(note: str) -> None:
    if note:
        typer.echo(f"note: {note}", err=True)


def _dtype(text: str) -> str:
    """Parse the name of a dtype or of a stored format."""
    name: str = _parsed(lambda written: arguments.accept("dtype", written), text)
    return name


def _state_dtype(text: str) -> str:
    """Parse the name of a dtype."""
    name: str = _parsed(lambda written: arguments.accept("state_dtype", written), text)
    return name


def _parsed(parse: Any, text: object) -> Any:
    """Parse an option's text, or its default; typer.BadParameter in place of ArchError."""
    try:
        return parse(str(text))
    except ArchError as problem:
        raise typer.BadParameter(str(problem)) from None


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        autocompletion=completion.models,
        help=(
            "A YAML, config.json or GGUF file, the name of a preset, org/name on the Hugging Face hub, "
            "or - for standard input."
        ),
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=completion.overrides,
        help=(
            "Change a field: d_ff=11008, ffn.activation=gelu, or by its full path, "
            "groups.0.layer.ffn.d_ff=11008. Repeatable."
        ),
    ),
]
Form = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Without it: table on a terminal, plain into a pipe, and into a file what its suffix says.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of standard output."),
]

BatchSize = Annotated[
    int,
    typer.Option(
        "--batch-size", "-b", metavar="N", parser=size("batch_size"), help="Sequences in the batch."
    ),
]
SeqLen = Annotated[
    int,
    typer.Option(
        "--seq-len",
        "-s",
        metavar="N",
        parser=length("seq_len"),
        help="New tokens of each sequence; 8k is 8,000, 8K is 8,192.",
    ),
]
PhaseOption = Annotated[
    Phase,
    typer.Option(
        help=(
            "A full pass; with its backward; a pass that fills the cache; one token against a filled cache."
        )
    ),
]
MaskOption = Annotated[
    arguments.CountedPairs,
    typer.Option(help="Count the scores that the mask allows, or all S x S, as torch's counter does."),
]
LogitsOption = Annotated[
    Logits | None,
    typer.Option(help="Logits of every position or of the last. [default: all; of prefill and decode last]"),
]
Past = Annotated[
    int | None,
    typer.Option(
        "--past",
        metavar="N",
        parser=length("past"),
        help="Tokens already in the cache. [decode default: --seq-len]",
    ),
]
Context = Annotated[
    int | None,
    typer.Option("--context", "-c", metavar="N", parser=length("context"), help="Tokens in the cache."),
]
SourceLen = Annotated[
    int | None,
    typer.Option(
        "--source-len",
        metavar="N",
        parser=length("source_len"),
        help="Tokens that the encoder of an encoder-decoder reads. [default: as many as the decoder]",
    ),
]
Dtype = Annotated[
    str,
    typer.Option(
        "--dtype",
        metavar="DTYPE",
        autocompletion=completion.dtypes,
        parser=_dtype,
        help="Type of an element, fp32, bf16, fp8, int4, or a stored format: q8_0, nf4, mxfp4 and others.",
    ),
]
StateDtype = Annotated[
    str | None,
    typer.Option(
        "--state-dtype",
        metavar="DTYPE",
        autocompletion=completion.dtypes,
        parser=_state_dtype,
        help="Type of recurrent states, which transformers keeps in fp32. [default: --dtype]",
    ),
]
Mla = Annotated[
    arguments.Mla,
    typer.Option(
        help="Latent attention (MLA): naive rebuilds keys and values, absorbed works on the latents; auto is "
        "absorbed where a token is decoded, as in engines, and naive elsewhere."
    ),
]
Scan = Annotated[
    arguments.Scan,
    typer.Option(
        help="Recurrent layers: chunked computes a chunk of tokens at once by matrix products, recurrent one "
        "token after the other; auto is recurrent where a token is decoded, and chunked elsewhere."
    ),
]
Depth = Annotated[
    int,
    typer.Option(
        "--depth",
        metavar="N",
        parser=size("depth"),
        help="Steps of a path to show; deeper ones are summed.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        autocompletion=completion.columns,
        metavar="CONDITION",
        help="Only models that meet it: params>10B, params in 7e9±1%. Repeatable; all must hold.",
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort", metavar="COLUMN[:desc]", help="Sort by a column.", autocompletion=completion.orders
    ),
]
Memory = Annotated[
    int | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        parser=_bytes,
        help="Memory for the cache: say how much fits. 80GiB, 24GB.",
    ),
]
Tokens = Annotated[
    int | None,
    typer.Option(
        "--seq-len",
        "-s",
        metavar="N",
        parser=length("seq_len"),
        help="Tokens of a sequence. [default: 2048, or max_seq_len]",
    ),
]
BackendOption = Annotated[Backend, typer.Option("--backend", help="Whose kernels run.")]
RecomputeOption = Annotated[
    str,
    typer.Option(
        "--recompute",
        metavar="WHAT",
        help="What backward recomputes: none, attention, layer, or a pattern such as layers.*.ffn.",
    ),
]
GradAccum = Annotated[
    int,
    typer.Option("--grad-accum", metavar="N", parser=size_from(1), help="Micro batches per step."),
]
