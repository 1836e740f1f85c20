"""show: `archcli show` in Python."""

from __future__ import annotations

from dataclasses import dataclass

from archcli.api.asking.modules import takes_modules
from archcli.api.asking.options import BatchSize, MediaOptions, NewTokens
from archcli.api.asking.question import asks
from archcli.api.asking.subject import Subject, given
from archcli.measure.report import Report
from archcli.measure.survey.show import list_rows
from archcli.modules.models.model import ModelLike


@dataclass(frozen=True)
class ShowOptions(MediaOptions):
    """Options of `archcli show`."""

    model: ModelLike
    batch_size: BatchSize = 1
    seq_len: NewTokens = None


def shown_forward(subject: Subject, options: ShowOptions) -> Report:
    """The report on a loaded model."""
    rows = list_rows(subject.model, options.batch_size, options.seq_len, options.media)
    return subject.named(rows)


@takes_modules("show")
@asks(ShowOptions)
def show(options: ShowOptions) -> Report:
    """The forward pass, operation by operation, with shapes: the report of `archcli show`.

    `rows` are operations: `id`, `path`, `op`, `group`, `times`, the numbers of its `layers`; `inputs`, and
    in `reads` the rows that made them (`id`, `id:1` for a second output, `id:weight`, `input`); `outputs`,
    `weights` and `params`; `mask`, `cached`, `activation`, `norm`, `rotary_share` and `router_scores`, None
    where there is none. `totals` have params and recurrences.

    A torch.nn.Module and its inputs may stand in place of a model: `show(module, x)`.

    Example: `show("gpt2", seq_len=16).rows[0]["path"]` is positions.
    """
    return shown_forward(given(options.model), options)
