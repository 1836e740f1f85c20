"""compare: `archcli compare` in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from archcli.api.asking.options import (
    BatchSize,
    Dtype,
    MlaForm,
    Past,
    ScanForm,
    SourceLen,
)
from archcli.api.asking.question import tokens_option
from archcli.api.asking.subject import Subject, given, taken_notes
from archcli.load.spec.written import to_mapping
from archcli.measure.report import Report
from archcli.measure.survey.compare.differences import ModelSettings
from archcli.measure.survey.compare.report import Compared, compare_models
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.calls import checked
from archcli.modules.spec.request import USUAL_TOKENS, Request, usual_tokens
from archcli.modules.spec.values import AboveZero

SeqLen = Annotated[
    AboveZero | None,
    tokens_option("New tokens of a sequence; 8K is 8,192. [default: 2048, or the least max_seq_len]", "-s"),
]
Context = Annotated[AboveZero | None, tokens_option("Tokens in the cache.", "-c")]


@dataclass(frozen=True)
class CompareOptions:
    """Options of `archcli compare`."""

    batch_size: BatchSize = 1
    seq_len: SeqLen = None
    past: Past = None
    context: Context = None
    source_len: SourceLen = None
    dtype: Dtype = "bf16"
    mla: MlaForm = "auto"
    scan: ScanForm = "auto"


def compared(subjects: Sequence[Subject], options: CompareOptions) -> Report:
    """The report on loaded models, with their notes; ArchError for fewer than two."""
    forms = {"mla": options.mla, "scan": options.scan}
    usual = min(usual_tokens(model.model.max_seq_len) for model in subjects) if subjects else USUAL_TOKENS
    sizes = (options.batch_size, options.seq_len or usual, options.past, options.source_len)
    models = [
        Compared(model.name, model.source, ModelSettings(model.model, to_mapping(model.model)))
        for model in subjects
    ]
    request = Request("forward", *sizes, forms=forms)
    report = compare_models(models, request, context=options.context, dtype=options.dtype)
    notes = [f"{model.name}: {note}" for model in subjects for note in model.text_notes]
    return replace(report, notes=(*report.notes, *notes, *taken_notes(options)))


@checked
def compare(  # noqa: PLR0913
    *models: ModelLike | Sequence[ModelLike],
    batch_size: BatchSize = 1,
    seq_len: SeqLen = None,
    past: Past = None,
    context: Context = None,
    source_len: SourceLen = None,
    dtype: Dtype = "bf16",
    mla: MlaForm = "auto",
    scan: ScanForm = "auto",
) -> Report:
    """Two or more architectures side by side, or a list of them: the report of `archcli compare`.

    What they state differently, parameters, FLOPs of a forward of `seq_len` tokens and of a token after
    `past`, cache of `context` (both left out: `seq_len`), as multiples of the first. `rows` hold value_1, ….

    Example: `compare("gpt2", "gpt2", seq_len=1024).totals["differences"]` is 0.
    """
    options = CompareOptions(
        batch_size=batch_size,
        seq_len=seq_len,
        past=past,
        context=context,
        source_len=source_len,
        dtype=dtype,
        mla=mla,
        scan=scan,
    )
    listed = models[0] if len(models) == 1 and isinstance(models[0], list | tuple) else models
    return compared([given(model) for model in listed], options)
