"""`archcli flops`: the FLOPs of one pass through an architecture."""

from __future__ import annotations

from typing import Annotated

import typer

from archcli.api.subject import subject
from archcli.commands.line.options import (
    BatchSize,
    Form,
    Json,
    LogitsOption,
    MaskOption,
    Mla,
    Model,
    Output,
    Past,
    PhaseOption,
    Scan,
    SeqLen,
    Set,
    SourceLen,
)
from archcli.commands.line.plan_options import Ep, Sp, Tp
from archcli.measure.flops import count_flops
from archcli.modules.spec.request import Request


def run(  # noqa: PLR0913
    model: Model,
    *,
    batch_size: BatchSize = 1,
    seq_len: SeqLen = 2048,
    phase: PhaseOption = "forward",
    past: Past = None,
    source_len: SourceLen = None,
    mask: MaskOption = "exact",
    logits: LogitsOption = None,
    mla: Mla = "auto",
    scan: Scan = "auto",
    tp: Tp = 1,
    sp: Sp = False,
    ep: Ep = 1,
    macs: Annotated[bool, typer.Option("--macs", help="Show multiply-adds (MACs), two FLOPs each.")] = False,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Count the FLOPs of a pass by component and by class of operation.

    A decoding pass is one new token after --past cached ones; without --past, after --seq-len of them. With
    --tp, --sp or --ep the figures are of one device of the plan.
    """
    asked = subject(model, overrides).shared(tp, sp=sp, ep=ep)
    request = Request(phase, batch_size, seq_len, past, source_len, logits, {"mla": mla, "scan": scan})
    asked.show(count_flops(asked.model, request, mask=mask, macs=macs), form, output, as_json=as_json)
