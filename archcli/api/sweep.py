"""sweep: `archcli sweep` in Python, and figures of shapes that a caller lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, overload

from archcli.api.arguments import checked
from archcli.api.subject import given
from archcli.errors import ArchError
from archcli.measure.report import Report
from archcli.measure.symbolic.sweep import Sweep
from archcli.modules.spec.arguments import ARGUMENTS, CountedPairs, ModelLike
from archcli.modules.spec.request import ABOVE_0
from archcli.modules.spec.values import Refusal, ValueType, refused, value_type


def _values(value: Any) -> Any:
    return None if value is None else ARGUMENTS["values"].convert(value)


def _folder(value: Any) -> Path | None:
    if value is not None and not isinstance(value, str | PathLike):
        raise refused(value, "a folder")
    return None if value is None else Path(value)


def _texts(value: Any) -> tuple[str, ...]:
    """Several texts, or one."""
    if isinstance(value, str):
        return (value,)
    try:
        texts: tuple[str, ...] = ARGUMENTS["where"].convert(value)
    except Refusal:
        raise refused(value, "a list of texts") from None
    return texts


TEXTS = ValueType("a list of texts", _texts, {})
OWN = {
    "values": ValueType("a mapping from names", _values, {}),
    **dict.fromkeys(("vary", "tie", "where", "minimize", "maximize", "show"), TEXTS),
    "top": ABOVE_0,
    "check": value_type(bool),
    "write_yaml": ValueType("a folder", _folder, {}),
}
"""Values that names accept here beside those of all functions."""


@overload
def sweep(
    model: ModelLike,
    values: Mapping[str, Any],
    *,
    batch_size: int = 1,
    seq_len: int = 2048,
    mask: CountedPairs = "exact",
) -> Sweep: ...


@overload
def sweep(
    model: ModelLike,
    values: None = None,
    *,
    vary: str | Sequence[str] = (),
    tie: str | Sequence[str] = (),
    where: str | Sequence[str] = (),
    minimize: str | Sequence[str] = (),
    maximize: str | Sequence[str] = (),
    show: str | Sequence[str] = (),
    top: int = 20,
    check: bool = False,
    write_yaml: str | PathLike[str] | None = None,
) -> Report: ...


@checked(OWN)
def sweep(  # noqa: PLR0913
    model: ModelLike,
    values: Mapping[str, Any] | None = None,
    *,
    vary: str | Sequence[str] = (),
    tie: str | Sequence[str] = (),
    where: str | Sequence[str] = (),
    minimize: str | Sequence[str] = (),
    maximize: str | Sequence[str] = (),
    show: str | Sequence[str] = (),
    top: int = 20,
    check: bool = False,
    write_yaml: str | PathLike[str] | None = None,
    batch_size: int = 1,
    seq_len: int = 2048,
    mask: CountedPairs = "exact",
) -> Sweep | Report:
    """The shapes of an architecture that meet conditions: the report of `archcli sweep` (needs numpy).

    `vary` are texts such as "d_model=1024:8192:128", `tie` "d_ff=8/3*d_model@128", `where` "params in
    7e9±1%", `minimize`, `maximize` and `show` expressions on figures, as the options take them. `rows` are
    the `top` best, `totals` hold candidates and matching.

    With `values` instead, a mapping from sizes' names (`d_ff`, or a full path) to arrays [N] of whole numbers
    above 0, the parameters and FLOPs of a forward of these N shapes, whether they fit together or not.

    Example: `sweep("gpt2", {"d_ff": range(1024, 4097, 64)}).params[0]` is 86,666,496.
    """
    searched = {"vary": vary, "tie": tie, "where": where}
    searched |= {"minimize": minimize, "maximize": maximize, "show": show}
    if values is not None:
        from archcli.measure.symbolic.sweep import sweep as count

        stated = [name for name, texts in searched.items() if texts]
        if stated:
            raise ArchError(f"values and {stated[0]} are two sweeps", "leave one of them out")
        subject = given(model).model
        return count(subject, values, batch_size=batch_size, seq_len=seq_len, unmasked=mask == "dense")
    from archcli.api.sweep_question import AskedSweep, swept

    asked = AskedSweep(**searched, top=top, check=check)
    return swept(given(model), asked, folder=write_yaml)  # type: ignore[arg-type]
