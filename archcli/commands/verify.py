"""`archcli verify`: compare archcli's counts with those of torch and fvcore on the built model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from archcli.api.subject import Subject, subject
from archcli.commands.line.options import (
    BatchSize,
    Form,
    Json,
    Mla,
    Model,
    Output,
    Scan,
    SeqLen,
    Set,
    SourceLen,
)
from archcli.errors import ArchError
from archcli.graph.count_tape import WholeTape
from archcli.measure.memory.settings import AttentionForm, MemorySettings
from archcli.measure.notes import form_notes, forward_and_decode_forms, source_notes
from archcli.measure.passes import count_pass
from archcli.measure.report import Column, Report, Table
from archcli.modules.spec.request import AUTO, Request
from archcli.render import chosen_format
from archcli.render.screen import progress
from archcli.render.write import check_writable

if TYPE_CHECKING:
    from archcli.runtime.verify.result import ReferenceResult, VerifyResult

CONVENTION = (
    "FLOP = 2 x multiply-add, of matrix products; every score of S x S counted, as eager attention executes "
    "(--mask dense). The model is built on torch's meta device: real shapes, no numbers."
)


WEIGHED = (
    "Logits of random tokens, ours and transformers' from the same stored weights: the largest difference, "
    "of the largest logit. In fp32 at most 1e-05; in half precision only coarse mistakes are seen."
)
REMEMBERED = (
    "Bytes as torch takes them, run without values: kept for the backward, with CUDA's operators on the meta "
    "device and a CPU's, equal row by row; peaks of live storages beyond the weights, of a training step "
    "within 1 KiB, of a forward, a prefill and a decoded token within 1%."
)
Memory = Annotated[
    bool,
    typer.Option(
        "--memory", help="Compare the bytes that training keeps and the peaks of passes, not counts."
    ),
]
AttentionOption = Annotated[
    AttentionForm | None,
    typer.Option(
        "--attention",
        case_sensitive=False,
        help="Of --memory: torch's fused kernel (flash, sdpa), or step by step.",
        show_default="flash",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="FOLDER",
        help="Compare logits with those of transformers, from the safetensors of this folder.",
    ),
]
WeightsDtype = Literal["fp32", "bf16", "fp16", "keep"]
Dtype = Annotated[
    WeightsDtype | None,
    typer.Option(
        "--dtype",
        case_sensitive=False,
        help="Number format of --weights (keep: the one that is stored) or --memory.",
        show_default="fp32; bf16 with --memory",
    ),
]

Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="List the operations that torch or fvcore do not count.")
]


def run(  # noqa: PLR0913
    model: Model,
    *,
    weights: Weights = None,
    memory: Memory = False,
    attention: AttentionOption = None,
    dtype: Dtype = None,
    batch_size: BatchSize = 1,
    seq_len: SeqLen = 128,
    source_len: SourceLen = None,
    mla: Mla = "auto",
    scan: Scan = "auto",
    verbose: Verbose = False,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Compare archcli's counts with those of torch and fvcore.

    Builds the model with torch on the meta device, which holds shapes and no numbers, and compares
    parameters by name and shape, the cache, and the FLOPs of forward, training, prefill and decode, in
    total and row by row; of an encoder forward and training only. Exits with 1 where anything differs.
    Needs torch and fvcore.

    With --weights, loads the safetensors of a folder into the model instead and compares its logits with
    those of transformers, in one pass and token by token. Needs transformers as well.

    With --memory, compares the figures of archcli memory with what torch keeps for the backward, row by row,
    and with the storages that are alive at once in a training step, a prefill and a decoded token.
    """
    chosen_format(form, output, as_json=as_json)
    check_writable(output)
    asked = subject(model, overrides)
    request = Request("forward", batch_size, seq_len, None, source_len, forms={"mla": mla, "scan": scan})
    notes = (*source_notes(asked.model, source_len), *form_notes([asked.model], request.forms))
    inputs = {
        "batch_size": batch_size,
        "seq_len": seq_len,
        "source_len": asked.model.source_length(request.source_positions),
        **forward_and_decode_forms([asked.model], request),
    }
    if memory or attention is not None:
        settings = _memory_settings(request, weights, dtype, attention, memory=memory)
        verified = _verify_memory(asked, settings)
        inputs |= {"memory": True, "dtype": settings.dtype, "attention": settings.attention}
        report = replace(report_of(verified, inputs, notes), convention=REMEMBERED)
    elif weights is None:
        verified = _verify_counts(asked, request)
        report = report_of(verified, inputs, notes, verbose=verbose)
    else:
        verified = _verify_logits(asked, weights, dtype or "fp32", request)
        inputs = {"weights": weights, "dtype": dtype or "fp32", **inputs}
        report = replace(report_of(verified, inputs, notes), convention=WEIGHED)
    asked.show(report, form, output, as_json=as_json)
    if not verified.ok:
        raise typer.Exit(1)


def _verify_counts(asked: Subject, request: Request) -> VerifyResult:
    """Count the passes, then compare the counts with torch and fvcore."""
    model, batch_size, seq_len = asked.model, request.batch_size, request.seq_len
    request = replace(request, source_len=seq_len if request.source_len is None else request.source_len)
    train_batch = lcm(batch_size * seq_len, model.token_multiple) // seq_len
    forward = count_pass(model, request, WholeTape)
    train = count_pass(model, replace(request, phase="train", batch_size=train_batch), WholeTape)
    steps = None
    if model.caches:
        steps = (
            count_pass(model, replace(request, phase="prefill"), WholeTape),
            count_pass(model, replace(request, phase="decode"), WholeTape),
        )
    # torch is imported only now, so that a model that cannot be counted is refused at once
    from archcli.runtime.verify import verify as references

    with progress(f"verifying {asked.name}") as tick:
        passes = references.CountedPasses(forward, train, steps, batch_size, seq_len, request.source_len)
        return references.verify(model, passes, tick)


def _verify_logits(asked: Subject, folder: str, dtype: str, request: Request) -> VerifyResult:
    from archcli.api.weights import verify_weights

    return verify_weights(asked, folder, dtype, request)


def _memory_settings(
    request: Request,
    weights: str | None,
    dtype: WeightsDtype | None,
    attention: AttentionForm | None,
    *,
    memory: bool,
) -> MemorySettings:
    """What --memory verifies. Raises ArchError for options of other comparisons."""
    if not memory:
        raise ArchError("--attention is of --memory: counts are of attention step by step", "add --memory")
    if weights is not None:
        raise ArchError("--weights and --memory are two comparisons", "leave one of them out")
    if dtype == "keep":
        raise ArchError("--dtype keep is of --weights", "--dtype bf16, fp16 or fp32")
    if {*request.forms.values()} != {AUTO}:
        raise ArchError("--memory is of the forms that each phase runs", "leave --mla and --scan out")
    return MemorySettings(
        "train",
        request.batch_size,
        request.seq_len,
        request.source_len,
        dtype or "bf16",
        attention or "flash",
    )


def _verify_memory(asked: Subject, settings: MemorySettings) -> VerifyResult:
    from archcli.api.verify_memory import verify_memory

    return verify_memory(asked.name, asked.model, settings)


def report_of(
    verified: VerifyResult, inputs: dict[str, Any], notes: tuple[str, ...] = (), *, verbose: bool = False
) -> Report:
    """The comparisons as a table; those that differ name the rows.

    `verbose` adds a table of the operations that a reference has no formula for.
    """
    rows = [_record(result) for result in verified.results]
    failed = sum(not row["ok"] for row in rows)
    titles = {"ok": "", "witness": "reference", "what": "what", "ours": "archcli", "theirs": "reference says"}
    titles |= {"where": "where"} if failed else {}
    columns = [Column(key, heading, "flag" if key == "ok" else "text") for key, heading in titles.items()]
    title = f"{failed} of {len(rows)} comparisons differ" if failed else f"all {len(rows)} comparisons agree"
    return Report(
        command="verify",
        model={},
        inputs=inputs,
        usual={"batch_size": 1, "dtype": "fp32"},
        convention=CONVENTION,
        totals={"comparisons": len(rows), "failed": failed, "uncounted": dict(verified.uncounted)},
        rows=rows,
        tables=(Table(title, columns, rows), *(_uncounted(verified) if verbose else ())),
        notes=(*notes, *verified.notes),
    )


def _uncounted(verified: VerifyResult) -> Iterator[Table]:
    """For each reference the operations without a formula, with their calls."""
    columns = (Column("operation", "operation"), Column("calls", "calls", "number"))
    for reference, counts in verified.uncounted.items():
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        records = [{"operation": name, "calls": calls} for name, calls in ordered]
        yield Table(f"No formula in {reference}, and no matrix product", columns, records)


def _record(result: ReferenceResult) -> dict[str, Any]:
    """The result as a JSON record."""
    return {
        "witness": result.reference,
        "what": result.what,
        "ours": result.ours,
        "theirs": result.theirs,
        "ok": result.ok,
        "where": result.where,
    }
