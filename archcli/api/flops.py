"""count_flops: `archcli flops` in Python."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from archcli.api.asking.modules import takes_modules
from archcli.api.asking.options import (
    BatchSize,
    CountedLogits,
    CountedMask,
    Ep,
    MediaOptions,
    MlaForm,
    NewTokens,
    PassPhase,
    Past,
    ScanForm,
    SourceLen,
    Sp,
    Tp,
)
from archcli.api.asking.question import Option, asks
from archcli.api.asking.subject import Subject, given
from archcli.measure.flops import count_flops as count
from archcli.measure.report import Report
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import PlainRequest
from archcli.modules.spec.request import Request, pass_lengths

Macs = Annotated[bool, Option("Show multiply-adds (MACs), two FLOPs each.")]


@dataclass(frozen=True)
class FlopsOptions(MediaOptions):
    """Options of `archcli flops`."""

    model: ModelLike
    request: PlainRequest | None = None
    _: KW_ONLY
    batch_size: BatchSize = 1
    seq_len: NewTokens = None
    phase: PassPhase = "forward"
    past: Past = None
    source_len: SourceLen = None
    mask: CountedMask = "exact"
    logits: CountedLogits = None
    mla: MlaForm = "auto"
    scan: ScanForm = "auto"
    tp: Tp = 1
    sp: Sp = False
    ep: Ep = 1
    macs: Macs = False

    def counted_pass(self, longest: int | None) -> Request:
        """The pass: as a Request says it, or these options, of a model with this max_seq_len."""
        if self.request is not None:
            return self.request
        forms = {"mla": self.mla, "scan": self.scan}
        sizes = {
            **pass_lengths(longest, self.phase, self.seq_len, self.past),
            "batch_size": self.batch_size,
            "source_len": self.source_len,
        }
        return Request(self.phase, **sizes, logits=self.logits, forms=forms, media=self.media)


def flops_report(subject: Subject, options: FlopsOptions) -> Report:
    """The report on a loaded model."""
    of_rank = subject.shared(options.tp, sp=options.sp, ep=options.ep)
    request = options.counted_pass(of_rank.model.max_seq_len)
    return of_rank.named(count(of_rank.model, request, mask=options.mask, macs=options.macs))


@takes_modules("flops")
@asks(FlopsOptions)
def count_flops(options: FlopsOptions) -> Report:
    """FLOPs of one pass, by component and by class of operation: the report of `archcli flops`.

    `phase` is "forward" (one full pass), "train" (that and its backward), "prefill" (fills a cache) or
    "decode" (one token against `past` cached ones, or `seq_len` where `past` is left out). `batch_size`
    sequences have `seq_len` new tokens each; an encoder-decoder reads `source_len` more. `logits` are those
    of "all" positions or the "last". `mla` is the form of latent attention, as engines compute it, "naive" or
    "absorbed"; `scan` that of recurrent layers, "chunked" or "recurrent"; `mask` "dense" counts all S x S
    pairs. A `Request` says the same as an object. `tp` ranks share each matrix, with `sp` the tokens of norms
    too, `ep` the experts: figures are of one. `image` and `video` are sizes that an encoder reads,
    "448x448"; `audio_frames`, `audio_samples` and `audio_seconds` those of a sound. `totals` holds
    matmul_flops and other_flops, `rows` both; with `macs` the tables show multiply-adds.

    A torch.nn.Module and its inputs may stand in place of a model: `count_flops(module, (x, y))`.

    Example: `count_flops("gpt2", phase="decode", past=1000).totals["matmul_flops"]` is 283,964,928.
    """
    return flops_report(given(options.model), options)
