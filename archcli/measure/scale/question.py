"""ScaleSettings: the size or the budget that a base is scaled to, and how a training is counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from archcli.errors import ArchError, Problem, either, quote, suggest
from archcli.measure.scale.laws import DEFAULT_LAW, LAWS, LawName, ScalingLaw
from archcli.measure.symbolic.symbols import sizes
from archcli.modules import Model
from archcli.modules.spec.values import AboveZero, Interval, check_values

DEFAULT_BATCH = 2**20
"""Tokens of a training step: what GPT-3 of 1.3B and 2.7B trained on (arXiv:2005.14165 table 2.1)."""
# beyond these a question is a slip
Params = Annotated[int, Interval(gt=0, le=10**16)]
Flops = Annotated[int, Interval(gt=0, le=10**34)]
Hours = Annotated[float, Interval(gt=0, le=1e7)]
GOALS = {"params": "--params", "compute": "--compute", "hours": "--hours"}


@dataclass(frozen=True, slots=True)
class ScaleSettings:
    """One of `params`, `compute` (FLOPs) and `hours`, and what they are counted with.

    `law` says what size a budget is best spent on; `batch_tokens` are those of a training step, `seq_len`
    those of a sequence, None for 2048 or max_seq_len. `keep` are names or paths of sizes that stay as they
    are. Values that a field does not accept are an ArchError.
    """

    params: Params | None = None
    compute: Flops | None = None
    hours: Hours | None = None
    law: LawName = DEFAULT_LAW
    batch_tokens: AboveZero = DEFAULT_BATCH
    seq_len: AboveZero | None = None
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_values("scale", self)

    @property
    def scaling_law(self) -> ScalingLaw:
        """The law."""
        return LAWS[self.law]

    def check(self, model: Model, *, timed: bool) -> None:
        """Raise ArchError unless one goal is stated, hours with a device, and `keep` names sizes."""
        problems = list(self._problems(model, timed=timed))
        if problems:
            raise ArchError(problems)

    def _problems(self, model: Model, *, timed: bool) -> Iterator[Problem]:
        stated = [option for name, option in GOALS.items() if getattr(self, name) is not None]
        if not stated:
            what = "scale needs a size or a budget"
            yield Problem(what, "--params 3e9, --compute 1e21, or --hours 24 with --device 8xh100-sxm")
        if len(stated) > 1:
            yield Problem(f"{' and '.join(stated)} each ask for another size", f"give {either(stated)}")
        if self.hours is not None and not timed:
            yield Problem("--hours needs a device", "add --device 8xh100-sxm, or give --compute")
        paths = [path for path, _, value in sizes(model) if value is not None]
        known = {*paths, *(path.rsplit(".", 1)[-1] for path in paths)}
        for name in self.keep:
            if name not in known:
                names = sorted(word for word in known if "." not in word)
                yield Problem(f"--keep {quote(name)}: the model has no such size", suggest(name, names))
        if {"d_model", "n_layers"} <= {*self.keep}:
            yield Problem("nothing is left to scale where d_model and n_layers are kept", "keep one of them")
