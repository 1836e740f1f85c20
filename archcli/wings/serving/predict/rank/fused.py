"""Kernels that engines run in place of several: sibling products, rotations, gates, norms, experts.

vLLM, SGLang and TensorRT-LLM all have them: one product for q, k and v and one for gate and up, a rotation of
queries and keys that writes the cache, an activation that multiplies, a norm that adds the residual, and the
routed experts from their choice to their sum. Of recurrent layers a convolution with its activation is one
kernel, and a scan another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from archcli.arith import prod
from archcli.graph import Row
from archcli.wings.serving.launches.kernel import KernelCost, KernelRun
from archcli.wings.serving.predict.constants import WIDTHS
from archcli.wings.serving.predict.rank.routing import assigned_to, reached
from archcli.wings.serving.predict.times import GROUPED, NORMALIZATION, OF_ADAPTERS, PRODUCTS, kind_of
from archcli.wings.serving.recorded.classes import TimeClass
from archcli.wings.serving.recorded.operations import JOIN

TOGETHER: tuple[tuple[str, ...], ...] = (
    ("q_proj", "k_proj", "v_proj"),
    ("q_a_proj", "kv_a_proj"),
    ("gate_proj", "up_proj"),
    ("q_rotate", "k_rotate", "k_cache", "v_cache", "latent_cache", "k_pe_cache"),
    ("activation", "gated"),
)
"""Operations of a module that one kernel runs, by name."""
GROUP_OF = {name: group for group in TOGETHER for name in group}
OF_EXPERTS = ".experts."


def served_runs(
    kernels: Iterable[KernelRun], rows: Mapping[str, Row | None], width: int, stored_as: str = ""
) -> Iterator[KernelRun]:
    """The kernels of a pass as an engine runs them; `rows` are by the path of the kernels.

    A joined kernel has the paths of all, in the order in which they run. `width` are the bytes of an element.
    """
    joined: dict[tuple[str, ...], list[KernelRun]] = {}
    for number, run in enumerate(kernels):
        joined.setdefault(_group(run, rows) or (str(number),), []).append(run)
    residual: KernelRun | None = None
    for (kind, *_), group in joined.items():
        if kind == MIXTURE:
            run = _fused_kernel(group, rows, stored_as)
        elif kind in {CONVOLUTION, RECURRENCE}:
            run = of_states(kind, group, rows, width)
        else:
            run = together(group, rows)
        if residual is not None and _adds_before(residual, run):
            run, residual = _with_sum(residual, run), None
        if residual is not None:
            yield residual
            residual = None
        if run.path.endswith("residual"):
            residual = run
        else:
            yield run
    if residual is not None:
        yield residual


MIXTURE, PRODUCT = "mixture", "product"


def _group(run: KernelRun, rows: Mapping[str, Row | None]) -> tuple[str, ...] | None:
    """What tells the kernels that run as one from others; None for a kernel that runs alone."""
    parent, _, name = run.path.rpartition(".")
    row = rows.get(run.path)
    if run.kernel.name == OF_ADAPTERS:
        return None
    if row is not None and row.experts is not None:
        return MIXTURE, run.path.partition(OF_EXPERTS)[0], run.stage
    if run.op_class == TimeClass.ROUTING:
        return MIXTURE, parent, run.stage
    kept = of_state(run.path, rows)
    if kept:
        return kept, run.path if kept == RECURRENCE else parent, run.stage
    if name not in GROUP_OF:
        return None
    # a kernel of another kind, such as the sum of a bias, stays apart
    kind = PRODUCT if kind_of(run.op_class, run.kernel.name) == PRODUCTS else ""
    return GROUP_OF[name][0], parent, run.stage, kind


def together(group: Sequence[KernelRun], rows: Mapping[str, Row | None]) -> KernelRun:
    """One kernel in place of several; sibling products read their common input once."""
    *before, last = group
    if not before:
        return last
    read = sum(run.kernel.read for run in group)
    row = rows.get(last.path)
    if row is not None and kind_of(last.op_class, last.kernel.name) == PRODUCTS:
        read -= len(before) * round(int(prod(row.inputs[0])) * WIDTHS[last.kernel.dtype])
    elif last.path.endswith("gated"):
        # what the activation writes is multiplied at once
        read -= sum(run.kernel.written for run in before)
    written = last.kernel.written if last.path.endswith("gated") else sum(run.kernel.written for run in group)
    flops = sum(run.kernel.flops for run in group)
    kernel = last.kernel._replace(flops=flops, read=read, written=written)
    return last._replace(path=JOIN.join(run.path for run in group), kernel=kernel)


def _adds_before(residual: KernelRun, run: KernelRun) -> bool:
    return run.times == residual.times and kind_of(run.op_class, run.kernel.name) == NORMALIZATION


def _with_sum(residual: KernelRun, norm: KernelRun) -> KernelRun:
    """A norm that adds its input to the residual, which it reads and writes, too."""
    added, kernel = residual.kernel, norm.kernel
    # the sum is not read again
    read = kernel.read - added.written + added.read
    joined = kernel._replace(
        flops=kernel.flops + added.flops, read=read, written=kernel.written + added.written
    )
    return norm._replace(path=JOIN.join((residual.path, norm.path)), kernel=joined)


def _fused_kernel(group: Sequence[KernelRun], rows: Mapping[str, Row | None], stored_as: str) -> KernelRun:
    """The kernel of all routed experts of a mixture: it reads their weights and the tokens, and sums."""
    from archcli.wings.serving.predict.engine_kernels.experts import ExpertsCall, RoutedCall  # of mixtures

    products = [Product.of(run, row) for run in group if (row := rows[run.path]) and _is_grouped(run, row)]
    if not products:
        return together(group, rows)
    last, experts = products[-1], products[-1].row.experts
    kernel, times = last.run.kernel, last.run.times
    assigned, elements = last.tokens, sum(product.elements for product in products)
    touched = reached(experts, assigned) if experts else 1.0
    weights = sum(product.weights for product in products)
    least = weights - sum(product.spared for product in products)
    tokens = group[-1].kernel.written
    sizes = ExpertsCall(
        last.written,
        last.read,
        elements / (last.written * last.read),
        touched,
        assigned,
        max(assigned, _sent(group, rows)),
        weights / (touched * elements),
    )
    flops = sum(product.run.kernel.flops for product in products)
    dtype = _dtype_of(sizes.weight_bytes, stored_as)
    read, least = (round(moved) + tokens for moved in (weights, least))
    cost = KernelCost(GROUPED, flops, read, tokens, kernel.dtype, RoutedCall(sizes, dtype), least)
    return last.run._replace(
        path=JOIN.join(dict.fromkeys(run.path for run in group)), kernel=cost, times=times
    )


def _is_grouped(run: KernelRun, row: Row) -> bool:
    return run.kernel.name == GROUPED and "weight" in row.weights


class Product(NamedTuple):
    """A grouped product of routed experts: its tokens, and the width that an expert reads and writes."""

    run: KernelRun
    row: Row
    tokens: int
    read: int
    written: int

    @classmethod
    def of(cls, run: KernelRun, row: Row) -> Product:
        """The product of a kernel and its row, whose weight is that of one expert."""
        written, read = (int(size) for size in row.weights["weight"])
        return cls(run, row, assigned_to(run, row), read, written)

    @property
    def elements(self) -> int:
        """Numbers of an expert's matrix."""
        return self.read * self.written

    @property
    def weights(self) -> float:
        """Bytes of the matrices that are read."""
        return self.run.kernel.read - self.tokens * self.read * WIDTHS[self.run.kernel.dtype]

    @property
    def spared(self) -> int:
        """Bytes that are not read where all tokens choose the same experts."""
        kernel = self.run.kernel
        return kernel.bytes - kernel.least_bytes


def _sent(group: Sequence[KernelRun], rows: Mapping[str, Row | None]) -> int:
    """Pairs of token and expert that the router chooses, on all ranks."""
    routers = (rows[run.path] for run in group if run.path.endswith(".route"))
    return max((int(prod(row.outputs[-1])) for row in routers if row is not None), default=0)


OF_FORMATS = {
    "fp8": "fp8",
    "fp8-block": "fp8",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
    "awq-int4": "int4_wo",
    "gptq-int4": "int4_wo",
}
"""Formats of weights as entries of experts name them."""


def _dtype_of(width: float, stored_as: str) -> str:
    """The dtype of an entry of experts, of the format of weights or of their bytes."""
    if stored_as in OF_FORMATS:
        return OF_FORMATS[stored_as]
    if width > 1.5:  # noqa: PLR2004
        return "bf16"
    return "fp8" if width > 0.75 else "int4_wo"  # noqa: PLR2004


CONVOLUTION, RECURRENCE = "convolution", "recurrence"
SHORT_CONVOLUTION = "short_conv"
OF_DELTA_NETS = 3
"""Convolutions of a delta net: of queries, keys and values; axes of its decay, one for each head."""


ACTIVATION = "_act"


def of_state(path: str, rows: Mapping[str, Row | None]) -> str:
    """Whether a row is of a short convolution, its activation included, or a scan; empty for others."""
    row = rows.get(path)
    if row is None:
        return ""
    if row.op.component == RECURRENCE and row.states:
        return RECURRENCE
    if path.endswith(ACTIVATION):
        # q_act follows q_conv, conv_act follows conv
        convolved = path.removesuffix(ACTIVATION)
        names = (convolved, f"{convolved}_conv")
        row = next((named for name in names if (named := rows.get(name)) is not None), row)
    return CONVOLUTION if row.op.component == SHORT_CONVOLUTION else ""


def of_states(kind: str, group: Sequence[KernelRun], rows: Mapping[str, Row | None], width: int) -> KernelRun:
    """One kernel that reads inputs and states, and writes outputs and states, each once."""
    known = {run.path: row for run in group if (row := rows.get(run.path)) is not None}
    keeping = [row for row in known.values() if row.op.component in {SHORT_CONVOLUTION, RECURRENCE}]
    read = width * sum(int(prod(shape)) for row in keeping for shape in row.inputs)
    written = width * sum(int(prod(shape)) for row in keeping for shape in row.outputs)
    last = group[-1]
    kernel = KernelCost(f"_{kind}_of_engine", 0, read, written, last.kernel.dtype, _call(kind, keeping))
    times = min(run.times for run in group)
    return last._replace(path=JOIN.join(known), kernel=kernel, op_class=TimeClass.RECURRENCE, times=times)


def _call(kind: str, rows: Sequence[Row]) -> Any:
    """The call of a gated delta net, whose heads are as wide as those that were measured; None for others."""
    from archcli.wings.serving.predict.engine_kernels.delta_net import WIDTH, DeltaCall, DeltaKernelCall

    first = rows[0].inputs
    batch, length = (int(size) for size in first[0][:2])
    if kind == CONVOLUTION:
        if len(rows) != OF_DELTA_NETS:
            return None
        keys, values = (int(rows[number].inputs[0][2]) / WIDTH for number in (1, 2))
        return DeltaKernelCall(kind, DeltaCall(keys, values, batch, length))
    is_delta = type(rows[0].op).__name__ == "DeltaScan" and len(first[3]) == OF_DELTA_NETS
    if not is_delta or (first[0][3], first[2][3]) != (WIDTH, WIDTH):
        return None
    return DeltaKernelCall(kind, DeltaCall(int(first[0][2]), int(first[2][2]), batch, length))
