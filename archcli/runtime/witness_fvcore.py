"""fvcore as a witness: multiply-adds by module, of the operations it counts exactly; the others are left out by name and number."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from archcli.graph import Row
from archcli.modules.mtp import MTP
from archcli.runtime.build import LanguageModel
from archcli.runtime.finding import Finding, agreement, listed
from archcli.runtime.layers import Layers
from archcli.runtime.require import missing_extra
from archcli.runtime.witness_torch import dense_flops

N = TypeVar("N", int, Counter[str])
WITNESS = "fvcore ×2"
INEXACT = {"aten::einsum", "aten::scaled_dot_product_attention", "aten::baddbmm", "aten::_grouped_mm", "aten::mv", "aten::dot"}
"""Contractions fvcore has no formula for, or one rounded to four digits (einsum): a module that executes one is not compared."""


def ask_fvcore(model: LanguageModel, rows: Iterable[Row], layers: Layers, tokens: Any) -> tuple[list[Finding], list[str]]:
    """Twice its multiply-adds of a forward beside ours, in total and by module; and in sentences what it cannot count."""
    analysis = _analysis(model, tokens)
    counts = _own({path: int(count) for path, count in analysis.by_module().items()}, 0)
    missed = _own({path: analysis.unsupported_ops(path) for path in counts}, Counter())
    ours, names = _by_module(rows, layers, set(counts))
    blind = {path for path, ops in missed.items() if INEXACT & set(ops)}
    seen = {path: flops for path, flops in ours.items() if path not in blind}
    theirs = {path: 2 * count for path, count in counts.items() if count and path not in blind}
    total = Finding(WITNESS, "forward FLOPs", sum(seen.values()), sum(theirs.values()))
    rest = agreement(WITNESS, "FLOPs of each module, forward", seen, theirs, lambda path: names.get(path, path), 0)
    hidden = {path: flops for path, flops in ours.items() if path in blind}
    return [total, *rest], list(_notes(analysis, hidden, {names[path] for path in hidden}))


def _analysis(model: LanguageModel, tokens: Any) -> Any:
    """The traced model, with exact formulas of contractions only."""
    try:
        from fvcore.nn import FlopCountAnalysis, jit_handles
    except ModuleNotFoundError as missing:
        raise missing_extra(missing) from None
    linear, matmul, product = jit_handles.linear_flop_jit, jit_handles.matmul_flop_jit, jit_handles.bmm_flop_jit
    analysis = FlopCountAnalysis(model, (tokens,)).clear_op_handles()
    analysis.set_op_handle("aten::linear", linear, "aten::matmul", matmul, "aten::mm", matmul, "aten::bmm", product)
    analysis.set_op_handle("aten::addmm", jit_handles.addmm_flop_jit, "aten::_convolution", jit_handles.conv_flop_jit)
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis.total()
    return analysis


def _own(counts: Mapping[str, N], nothing: N) -> dict[str, N]:
    """What of a module's count is not its children's."""
    own = dict(counts)
    for path, count in counts.items():
        if path:
            parent = path.rpartition(".")[0]
            own[parent] = own.get(parent, nothing) - count
    return own


def _by_module(rows: Iterable[Row], layers: Layers, modules: set[str]) -> tuple[Counter[str], dict[str, str]]:
    """Forward FLOPs by the module that runs the rows, and those rows' names."""
    flops: Counter[str] = Counter()
    names: dict[str, str] = {}
    for row in rows:
        count = dense_flops(row)[0]
        for path in layers.built(row.path) if count else ():
            home = path if path in modules else path.rpartition(".")[0]
            names[home] = f"{names[home]}, {row.path}" if home in flops else row.path
            flops[home] += count
    return flops, names


def _notes(analysis: Any, hidden: Mapping[str, int], rows: set[str]) -> Iterable[str]:
    ops = analysis.unsupported_ops()
    plain = {name: count for name, count in ops.items() if name not in INEXACT}
    if plain:
        yield f"fvcore has no formula for {listed(plain)}; none of them contracts."
    if hidden:
        inexact = {name: count for name, count in ops.items() if name in INEXACT}
        flops, places = sum(hidden.values()), ", ".join(sorted(rows))
        yield f"fvcore cannot count {listed(inexact)} exactly: {flops:,} FLOPs of {places} are left out of its comparison."
    uncalled = sorted(path for path in analysis.uncalled_modules() if path.partition(".")[0] != MTP)
    if uncalled:
        yield f"fvcore saw no call of {', '.join(uncalled)}: their weights are used elsewhere."
