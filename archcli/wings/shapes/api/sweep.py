"""sweep: `archcli sweep` in Python, and figures of shapes that a caller lists."""

from __future__ import annotations

from typing import Any, overload

from archcli.api.asking.options import BatchSize, CountedMask, NewTokens
from archcli.api.asking.spread import On, Workers
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.measure.report import Report
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import ByName
from archcli.modules.spec.calls import checked
from archcli.wings.shapes.api.sweep_question import (
    Check,
    Folder,
    Maximize,
    Minimize,
    Show,
    SweepOptions,
    Tie,
    Top,
    Vary,
    Where,
)
from archcli.wings.shapes.api.swept import swept
from archcli.wings.shapes.symbolic.sweep import Sweep
from archcli.wings.shapes.symbolic.sweep import sweep as count


@overload
def sweep(
    model: ModelLike,
    values: ByName,
    *,
    batch_size: BatchSize = 1,
    seq_len: NewTokens = None,
    mask: CountedMask = "exact",
) -> Sweep: ...


@overload
def sweep(
    model: ModelLike,
    values: None = None,
    *,
    vary: Vary = (),
    tie: Tie = (),
    where: Where = (),
    minimize: Minimize = (),
    maximize: Maximize = (),
    show: Show = (),
    top: Top = 20,
    check: Check = False,
    write_yaml: Folder = None,
    workers: Workers = 1,
    on: On = None,
) -> Report: ...


@checked
def sweep(  # noqa: PLR0913
    model: ModelLike,
    values: ByName | None = None,
    *,
    vary: Vary = (),
    tie: Tie = (),
    where: Where = (),
    minimize: Minimize = (),
    maximize: Maximize = (),
    show: Show = (),
    top: Top = 20,
    check: Check = False,
    write_yaml: Folder = None,
    workers: Workers = 1,
    on: On = None,
    batch_size: BatchSize = 1,
    seq_len: NewTokens = None,
    mask: CountedMask = "exact",
) -> Sweep | Report:
    """The shapes of an architecture that meet conditions: the report of `archcli sweep` (needs numpy).

    `vary` are texts such as "d_model=1024:8192:128" or a mapping such as {"d_ff": [1024, 2048]}, `tie`
    "d_ff=8/3*d_model@128", `where` "params in 7e9±1%", `minimize`, `maximize` and `show` expressions on
    figures, as the options take them. `rows` are the `top` best, `totals` hold candidates and matching.

    With `values` instead, a mapping from sizes' names (`d_ff`, or a full path) to arrays [N] of whole numbers
    above 0, the parameters and FLOPs of a forward of these N shapes, whether they fit together or not.

    Example: `sweep("gpt2", {"d_ff": range(1024, 4097, 64)}).params[0]` is 86,666,496.
    """
    texts: Any = {"tie": tie, "where": where, "show": show, "minimize": minimize, "maximize": maximize}
    if values is None:
        places: Any = {"write_yaml": write_yaml, "workers": workers, "on": on}
        return swept(given(model), SweepOptions(model, vary=vary, **texts, top=top, check=check, **places))
    searches = [name for name, searched in {"vary": vary, **texts}.items() if searched]
    if searches:
        raise ArchError(f"values and {searches[0]} are two sweeps", "leave one of them out")
    return count(given(model).model, values, batch_size=batch_size, seq_len=seq_len, unmasked=mask == "dense")
