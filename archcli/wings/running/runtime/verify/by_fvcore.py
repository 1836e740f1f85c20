"""Compare with fvcore: multiply-adds by module, except those that it cannot count exactly."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from archcli.graph import Row
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Medium
from archcli.modules.spec.trace import MTP
from archcli.wings.media.modules.models.tower import GivenMedium
from archcli.wings.running.runtime.model.build import LanguageModel
from archcli.wings.running.runtime.model.leaves import AdapterHolder
from archcli.wings.running.runtime.model.node import ModuleNode
from archcli.wings.running.runtime.require import missing_package
from archcli.wings.running.runtime.verify.by_torch import Given, unmasked_flops
from archcli.wings.running.runtime.verify.result import ReferenceResult, compare_entries, listed

N = TypeVar("N", int, Counter[str])
REFERENCE = "fvcore ×2"
INEXACT = {
    "aten::einsum",
    "aten::scaled_dot_product_attention",
    "aten::baddbmm",
    "aten::_grouped_mm",
    "aten::mv",
    "aten::dot",
}
"""Products without a formula in fvcore, or with a rounded one (einsum): not compared."""


class FvcoreResults(NamedTuple):
    """The results, notes, and calls of operations without a formula that are no matrix products."""

    results: list[ReferenceResult]
    notes: list[str]
    uncounted: Mapping[str, int]


def verify_fvcore(
    model: LanguageModel, rows: Sequence[Row], layers: LayerIndex, inputs: Given
) -> FvcoreResults:
    """Compare archcli's forward FLOPs with fvcore's (twice its multiply-adds), by module."""
    untraced = _convolutions(rows, layers)
    try:
        with _stubbed(model, untraced), _reading(model, inputs):
            values = [medium.values for medium in inputs.media]
            analysis = _analysis(model, (*inputs.tensors, *values))
    # torch.jit cannot trace every operation on meta
    except RuntimeError as problem:
        note = f"fvcore was not asked: it cannot trace this model on meta ({str(problem).splitlines()[0]})."
        return FvcoreResults([], [note], {})
    counts = _without_children({path: int(count) for path, count in analysis.by_module().items()}, 0)
    missed = _without_children({path: analysis.unsupported_ops(path) for path in counts}, Counter())
    modules = dict(model.named_modules())
    nodes = {path for path in counts if isinstance(modules[path], ModuleNode)}
    leaves = {path for path in counts if not isinstance(modules[path], ModuleNode | AdapterHolder)}
    lenders = _lenders(model, rows, layers)
    ours, names = _by_module(rows, layers, leaves, nodes, lenders)
    homes = [
        (row, _home(lenders.get(p, p), leaves, nodes)) for row in rows for p in layers.built_paths(row.path)
    ]
    unread = {home for row, home in homes if row.op.has_unread or _is_unread(row, counts.get(home, 0))}
    inexact = {path for path, ops in missed.items() if INEXACT & set(ops)} - unread
    uncounted = inexact | unread | set(untraced)
    counted = {path: flops for path, flops in ours.items() if path not in uncounted}
    theirs = {path: 2 * count for path, count in counts.items() if count and path not in uncounted}
    total = ReferenceResult(REFERENCE, "forward FLOPs", sum(counted.values()), sum(theirs.values()))
    rest = compare_entries(
        REFERENCE, "FLOPs of each module, forward", counted, theirs, lambda path: names.get(path, path), 0
    )
    hidden, dropped, skipped = (
        {path: ours[path] for path in paths if path in ours} for paths in (inexact, unread, untraced)
    )
    plain = {name: count for name, count in analysis.unsupported_ops().items() if name not in INEXACT}
    blocks = {path for path in nodes if modules[path].spec.family == "block"}
    elsewhere = [*_used_elsewhere(sorted(analysis.uncalled_modules()), blocks, unread)]
    notes = _notes(elsewhere, hidden, dropped, skipped, names, analysis)
    return FvcoreResults([total, *rest], list(notes), plain)


def _used_elsewhere(uncalled: Sequence[str], blocks: set[str], unread: set[str]) -> Iterator[str]:
    """Uncalled modules whose weights another module reads.

    Not modules that no output depends on; and no layers: an uncalled layer reads images, and this is text.
    """
    apart = [MTP, *blocks.intersection(uncalled)]
    for path in uncalled:
        if not (_within(path, apart) or any(_within(home, [path]) for home in unread)):
            yield path


def _within(path: str, tops: Iterable[str]) -> bool:
    """Whether a path is one of these, or below one."""
    return any(path == top or path.startswith(f"{top}.") for top in tops)


def _convolutions(rows: Sequence[Row], layers: LayerIndex) -> dict[str, Any]:
    """The output shape(s) of each convolution, by path: torch.jit cannot trace one on meta."""
    returned: dict[str, Any] = {}
    for row in rows:
        if row.op.convolves and row.weights:
            returned |= dict.fromkeys(layers.stored_paths(row), row.op.shape(*row.inputs))
    return returned


@contextmanager
def _stubbed(model: LanguageModel, returned: Mapping[str, Any]) -> Iterator[None]:
    """Within the block, let modules return empty tensors of these shapes instead of their forward."""
    for path, shape in returned.items():
        vars(model.get_submodule(path))["forward"] = partial(_empty, shape)
    try:
        yield
    finally:
        for path in returned:
            del vars(model.get_submodule(path))["forward"]


@contextmanager
def _reading(model: LanguageModel, inputs: Given) -> Iterator[None]:
    """Within the block, let the model take media as further tensors: torch.jit passes only tensors."""
    sizes = [medium.medium for medium in inputs.media]
    if not sizes:
        yield
        return
    vars(model)["forward"] = partial(_with_media, model, sizes)
    try:
        yield
    finally:
        del vars(model)["forward"]


def _with_media(model: LanguageModel, sizes: Sequence[Medium], *tensors: Any) -> Any:
    texts, values = tensors[: -len(sizes)], tensors[-len(sizes) :]
    media = tuple(map(GivenMedium, sizes, values))
    return type(model).forward(model, *texts, media=media)


def _empty(shape: Any, x: Any, *_rest: Any, **_options: Any) -> Any:
    """An empty tensor of a shape, or a tuple of them."""
    if isinstance(shape[0], tuple):
        return tuple(x.new_empty(size) for size in shape)
    return x.new_empty(shape)


def _analysis(model: LanguageModel, inputs: Sequence[Any]) -> Any:
    """fvcore's analysis of the model, with exact formulas for matrix products only."""
    try:
        from fvcore.nn import FlopCountAnalysis, jit_handles
    except ModuleNotFoundError as missing:
        raise missing_package(missing) from None
    linear, matmul, product = (
        jit_handles.linear_flop_jit,
        jit_handles.matmul_flop_jit,
        jit_handles.bmm_flop_jit,
    )
    # fvcore's default handles count norms and pools too, by its own conventions
    analysis = FlopCountAnalysis(model, tuple(inputs)).clear_op_handles()
    analysis.set_op_handle(
        "aten::linear", linear, "aten::matmul", matmul, "aten::mm", matmul, "aten::bmm", product
    )
    analysis.set_op_handle("aten::addmm", jit_handles.addmm_flop_jit)
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # the analysis is lazy: the model is traced here, with all the warnings of that
        analysis.total()
    return analysis


def _without_children(counts: Mapping[str, N], nothing: N) -> dict[str, N]:
    """The count of each module without its children."""
    rest = dict(counts)
    for path, count in counts.items():
        if path:
            parent = path.rpartition(".")[0]
            rest[parent] = rest.get(parent, nothing) - count
    return rest


def _by_module(
    rows: Iterable[Row], layers: LayerIndex, leaves: set[str], nodes: set[str], lenders: Mapping[str, str]
) -> tuple[Counter[str], dict[str, str]]:
    """Forward FLOPs by the module that runs the rows, and those rows' names."""
    flops: Counter[str] = Counter()
    names: dict[str, str] = {}
    for row in rows:
        count = unmasked_flops(row)[0]
        for path in layers.built_paths(row.path) if count else ():
            home = _home(lenders.get(path, path), leaves, nodes)
            names[home] = f"{names[home]}, {row.path}" if home in flops else row.path
            flops[home] += count
    return flops, names


def _is_unread(row: Row, counted: int) -> bool:
    """Whether the output of a row is unread: it gets no gradient, and fvcore counts no FLOPs for it."""
    return bool(row.parts) and not counted and not any(part.backward for part in row.parts)


def _home(path: str, leaves: set[str], nodes: set[str]) -> str:
    """The path of the module that runs an operation."""
    return path if path in leaves else _enclosing_node(path, nodes)


def _lenders(model: LanguageModel, rows: Iterable[Row], layers: LayerIndex) -> dict[str, str]:
    """Path of an operation whose weights another module holds: path of the leaf that runs it."""
    modules = dict(model.named_modules())
    paths = {id(module): path for path, module in modules.items()}
    lenders = {}
    for row in rows:
        for path in layers.built_paths(row.path)[row.stored :] if row.stored is not None else ():
            above, _, name = path.rpartition(".")
            node = modules.get(above)
            leaf = node.part(name) if isinstance(node, ModuleNode) else None
            if leaf is not None:
                lenders[path] = paths[id(leaf)]
    return lenders


def _enclosing_node(path: str, nodes: set[str]) -> str:
    """The path of the closest module above an operation that is a node of the built model."""
    home = path.rpartition(".")[0]
    return home if home in nodes or not home else _enclosing_node(home, nodes)


def _notes(
    elsewhere: Sequence[str],
    hidden: Mapping[str, int],
    dropped: Mapping[str, int],
    skipped: Mapping[str, int],
    names: Mapping[str, str],
    analysis: Any,
) -> Iterable[str]:
    if hidden:
        inexact = {name: count for name, count in analysis.unsupported_ops().items() if name in INEXACT}
        yield f"fvcore cannot count {listed(inexact)} exactly: {_left_out(hidden, names)}"
    if dropped:
        yield f"fvcore's trace drops what no output is made of: {_left_out(dropped, names)}"
    if skipped:
        yield f"fvcore cannot trace a convolution on meta: {_left_out(skipped, names)}"
    if elsewhere:
        yield f"fvcore saw no call of {', '.join(elsewhere)}: their weights are used elsewhere."


def _left_out(flops: Mapping[str, int], names: Mapping[str, str]) -> str:
    """A note on uncounted FLOPs and the rows that they belong to."""
    places = ", ".join(sorted({names[path] for path in flops}))
    return f"{sum(flops.values()):,} FLOPs of {places} are left out of its comparison."
