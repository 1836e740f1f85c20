"""`verify`, the Python function of `archcli verify`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from math import lcm
from typing import TYPE_CHECKING, Annotated, Any, Literal

from archcli.api.asking.options import BatchSize, MediaOptions, MlaForm, ScanForm, SeqLen, SourceLen
from archcli.api.asking.question import Option, asks
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError
from archcli.graph.count_tape import WholeTape
from archcli.measure.notes import form_notes, forward_and_decode_forms, source_notes
from archcli.measure.passes import count_pass
from archcli.measure.report import Column, Report, Table
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.request import AUTO, Medium, Request
from archcli.render.screen import progress
from archcli.wings.serving.memory.settings import AttentionForm, MemorySettings

if TYPE_CHECKING:
    from archcli.wings.running.runtime.verify.result import ReferenceResult, VerifyResult

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
Memory = Annotated[bool, Option("Compare the bytes that training keeps and the peaks of passes, not counts.")]
Attention = Annotated[
    AttentionForm | None,
    Option(
        "Of --memory: torch's fused kernel (sdpa, flash), or step by step.", default="sdpa", any_case=True
    ),
]
Weights = Annotated[
    str | None,
    Option(
        "Compare logits with those of transformers, from the safetensors of this folder.", metavar="FOLDER"
    ),
]
Dtype = Annotated[
    Literal["fp32", "bf16", "fp16", "keep"] | None,
    Option(
        "Number format of --weights (keep: the one that is stored) or --memory.",
        default="fp32; bf16 with --memory",
        any_case=True,
    ),
]
Verbose = Annotated[bool, Option("List the operations that torch or fvcore do not count.", "-v")]


@dataclass(frozen=True)
class VerifyOptions(MediaOptions):
    """Options of `archcli verify`."""

    model: ModelLike
    _: KW_ONLY
    weights: Weights = None
    memory: Memory = False
    attention: Attention = None
    dtype: Dtype = None
    batch_size: BatchSize = 1
    seq_len: SeqLen = 128
    source_len: SourceLen = None
    mla: MlaForm = "auto"
    scan: ScanForm = "auto"
    verbose: Verbose = False

    def request(self) -> Request:
        """The forward that is verified."""
        forms = {"mla": self.mla, "scan": self.scan}
        if self.media and self.memory:
            raise ArchError("--memory is of text", "leave --image and --audio-… out")
        sizes = (self.batch_size, self.seq_len, None, self.source_len)
        return Request("forward", *sizes, forms=forms, media=self.media)

    def memory_settings(self) -> MemorySettings:
        """The settings of --memory. Raises ArchError for options of other comparisons."""
        if not self.memory:
            what = "--attention is of --memory: counts are of attention step by step"
            raise ArchError(what, "add --memory")
        if self.weights is not None:
            raise ArchError("--weights and --memory are two comparisons", "leave one of them out")
        if self.dtype == "keep":
            raise ArchError("--dtype keep is of --weights", "--dtype bf16, fp16 or fp32")
        # peaks belong to passes of different phases, each with its own form
        if {self.mla, self.scan} != {AUTO}:
            raise ArchError("--memory is of the forms that each phase runs", "leave --mla and --scan out")
        sizes = (self.batch_size, self.seq_len, self.source_len)
        # what is built runs torch's own kernels alone
        attention: AttentionForm = "eager" if self.attention == "eager" else "sdpa"
        return MemorySettings("train", *sizes, self.dtype or "bf16", attention)


def verified(subject: Subject, options: VerifyOptions) -> Report:
    """The report on a loaded model; `totals["failed"]` counts what differs. Imports torch."""
    request = options.request()
    notes = (*source_notes(subject.model, options.source_len), *form_notes([subject.model], request.forms))
    inputs = {
        "batch_size": options.batch_size,
        "seq_len": options.seq_len,
        "source_len": subject.model.source_length(request.source_positions),
        **forward_and_decode_forms([subject.model], request),
    }
    if options.memory or options.attention is not None:
        settings = options.memory_settings()
        inputs |= {"memory": True, "dtype": settings.dtype, "attention": settings.attention}
        report = report_of(_verify_memory(subject, settings), inputs, notes)
        return subject.named(replace(report, convention=REMEMBERED))
    if options.weights is None:
        reason = _why_alone(subject.model)
        notes = (*notes, *([f"The language model alone is verified: {reason}."] if reason else []))
        return subject.named(
            report_of(_verify_counts(subject, request), inputs, notes, verbose=options.verbose)
        )
    dtype = options.dtype or "fp32"
    inputs = {"weights": options.weights, "dtype": dtype, **inputs}
    report = report_of(_verify_logits(subject, options.weights, dtype, request), inputs, notes)
    return subject.named(replace(report, convention=WEIGHED))


@asks(VerifyOptions)
def verify(options: VerifyOptions) -> Report:
    """Counts beside those of torch and fvcore: the report of `archcli verify` (needs torch and fvcore).

    Parameters by name and shape, the cache, and FLOPs of every pass, on torch's meta device; with `memory`
    the bytes that torch keeps and holds; with `weights`, a folder, logits beside those of transformers.
    `rows` have what, ours, theirs and ok; `totals["failed"]` counts those that differ.

    Example: `verify("gpt2", seq_len=16).totals["failed"]` is 0.
    """
    return verified(given(options.model), options)


def _verify_counts(subject: Subject, request: Request) -> VerifyResult:
    """Count the passes, then compare the counts with torch and fvcore."""
    model, batch_size, seq_len = subject.model, request.batch_size, request.seq_len
    # without --source-len the encoder of the built model gets as many tokens as the decoder
    request = replace(request, source_len=seq_len if request.source_len is None else request.source_len)
    # an adaptive softmax divides targets among its clusters: the batch grows until all shares are integers
    train_batch = lcm(batch_size * seq_len, model.token_multiple) // seq_len
    request = model.placing(replace(request, media=_verified_media(model, request)))
    forward = count_pass(model, request, WholeTape)
    train = count_pass(model, replace(request, phase="train", batch_size=train_batch), WholeTape)
    steps = None
    # an encoder has no cache: no prefill and no decoding
    if model.caches:
        # in decoding, images and sounds of the prompt are in the cache already
        decode = replace(request, phase="decode", media=(), in_prompt=False)
        steps = (
            count_pass(model, replace(request, phase="prefill"), WholeTape),
            # keys and values of cross-attention to media are read by all later tokens
            count_pass(model.with_media(request.media), decode, WholeTape),
        )
    # torch is imported only now, so that a model that cannot be counted is refused at once
    from archcli.wings.running.runtime.verify import verify as references

    with progress(f"verifying {subject.name}") as tick:
        source_len = request.source_len
        passes = references.CountedPasses(forward, train, steps, batch_size, request.seq_len, source_len)
        return references.verify(model, passes, tick)


def _verified_media(model: Model, request: Request) -> tuple[Medium, ...]:
    """The media of the prompt: those of the options, else one of default size for each tower.

    Empty if towers can be counted but not run; ArchError for media of such towers.
    """
    if not model.towers:
        return request.media
    reason = _why_alone(model)
    if reason and request.media:
        raise ArchError(f"no image or sound is read: {reason}", "leave --image and --audio-… out")
    towers = [model.tower_of(medium).part for medium in request.media]
    if len(set(towers)) < len(towers):
        raise ArchError("counts are of one image or sound for each tower", "name one")
    return () if reason else request.media or tuple(tower.usual for tower in model.towers)


def _why_alone(model: Model) -> str:
    """The reason to verify the language model without its towers; empty if there is none."""
    if not model.towers:
        return ""
    from archcli.wings.media.modules.models.media import why_not_run  # of models with towers alone

    return why_not_run(model)


def _verify_logits(subject: Subject, folder: str, dtype: str, request: Request) -> VerifyResult:
    from archcli.wings.running.api.verify_weights import verify_weights

    return verify_weights(subject, folder, dtype, request)


def _verify_memory(subject: Subject, settings: MemorySettings) -> VerifyResult:
    from archcli.wings.running.api.verify_memory import verify_memory

    return verify_memory(subject.name, subject.model, settings)


def report_of(
    verified: VerifyResult, inputs: dict[str, Any], notes: tuple[str, ...] = (), *, verbose: bool = False
) -> Report:
    """The comparisons as a table; a difference names its rows.

    verbose: add a table of operations without a formula in a reference.
    """
    rows = [_record(result) for result in verified.results]
    failed = sum(not row["ok"] for row in rows)
    titles = {"ok": "", "witness": "reference", "what": "what", "ours": "archcli", "theirs": "reference says"}
    titles |= {"where": "where"} if failed else {}
    columns = [Column(key, heading, "flag" if key == "ok" else "text") for key, heading in titles.items()]
    headline = (
        f"{failed} of {len(rows)} comparisons differ" if failed else f"all {len(rows)} comparisons agree"
    )
    return Report(
        command="verify",
        model={},
        inputs=inputs,
        usual={"batch_size": 1, "dtype": "fp32"},
        convention=CONVENTION,
        totals={"comparisons": len(rows), "failed": failed, "uncounted": dict(verified.uncounted)},
        rows=rows,
        headline=headline,
        tables=(Table("comparisons", columns, rows), *(_uncounted(verified) if verbose else ())),
        notes=(*notes, *verified.notes),
    )


def _uncounted(verified: VerifyResult) -> Iterator[Table]:
    """A table for each reference: operations without a formula, and their calls."""
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
