"""Reports on a user's own module, from the rows of a watched run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archcli.graph import OpClass, Row
from archcli.measure.report import Column, Report, Table, facts
from archcli.units import both_bytes, short_count, short_flops
from archcli.wings.running.recording.own import ModuleCall, ModuleRun

Record = dict[str, Any]
CONVENTION = (
    "FLOP = 2 x multiply-add, of the torch operations that ran: matmul with the pairs that a known mask "
    "allows, executed with all of them. Tied weights count once. Equal layers stand once."
)
PARAMS = "Tied weights count once; buffers do not count."
MASKS = {
    "none": "without a mask",
    "causal": "causal",
    "given": "with a mask whose values are known",
    "unknown": "with a mask whose values are not known: all pairs are counted",
}
SHAPES = ("path", "op", "group", "times", "inputs", "outputs", "weights", "params")
KEYS = (*SHAPES, "flops")
RUNS = {"meta": "fake tensors of a CPU: no weight has a value", "cpu": "a CPU", "cuda": "a GPU"}


@dataclass(frozen=True)
class Flops:
    """FLOPs of matrix products, needed and executed, and FLOPs of all else."""

    matmul: int = 0
    executed: int = 0
    other: int = 0

    def __add__(self, more: Flops) -> Flops:
        return Flops(self.matmul + more.matmul, self.executed + more.executed, self.other + more.other)


def flops_of(row: Row, phase: str) -> Flops:
    """FLOPs of all calls of a row."""
    total = Flops()
    for _, _, part in row.pieces(phase):
        times = int(row.times)
        if part.op_class is OpClass.CONTRACTION:
            total += Flops(times * int(part.flops), times * int(part.unmasked_flops))
        else:
            total += Flops(other=times * int(part.flops))
    return total


def class_name(row: Row) -> str:
    """The class of the module of a row."""
    return row.op.class_name if type(row.op) is ModuleCall else type(row.op).__name__


def with_names(run: ModuleRun, records: Iterable[Mapping[str, Any]]) -> list[Record]:
    """The records with the module's name in place of its empty path, as tables show them."""
    return [{**record, "path": record["path"] or run.name} for record in records]


PASSES = {"train": "a forward and a backward"}


def module_report(run: ModuleRun, command: str, convention: str, **body: Any) -> Report:
    """The common parts of a report on a module: its name, inputs, and ties."""
    inputs = {"phase": run.phase, "run_on": run.run_on, "input": list(run.inputs)}
    return Report(
        command=command,
        model={"name": run.name, "source": run.source},
        inputs={**inputs, **body.pop("inputs", {})},
        usual={"phase": "forward", "run_on": "meta", "input": []},
        convention=convention,
        notes=(*body.pop("notes", ()), *_ties(run)),
        **body,
    )


def _ties(run: ModuleRun) -> Iterator[str]:
    if run.ties:
        more = f", and {len(run.ties) - 1} more" if len(run.ties) > 1 else ""
        yield f"Tied: {run.ties[0]}{more}."


def _counting_notes(run: ModuleRun) -> Iterator[str]:
    """Notes on the run, on known masks, and on operations without a formula."""
    yield f"Counted on {RUNS.get(run.run_on, run.run_on)}."
    for calls in run.attention:
        if calls.mask != "none":
            yield (
                f"{calls.calls:,} calls of attention kernels are {MASKS[calls.mask]}: {calls.flops:,} of "
                f"{calls.executed:,} executed FLOPs are counted."
            )
    if run.uncounted:
        share = f"{_uncounted_share(run):.1%} of the calls of products"
        yield f"Without a formula, and not counted: {uncounted_calls(run)}; {share}."


def uncounted_calls(run: ModuleRun) -> str:
    """Operations without a formula, in words: name, module, number of calls."""
    return ", ".join(f"{x.op} in {x.path or run.name} (x{x.calls:,})" for x in run.uncounted)


def _uncounted_share(run: ModuleRun) -> float:
    """The share of uncounted calls among calls of products and of operations without a formula."""
    missed = sum(x.calls for x in run.uncounted)
    counted = sum(
        int(row.times)
        for row in run.rows
        for _, _, part in row.pieces(run.phase)
        if part.op_class is OpClass.CONTRACTION
    )
    return missed / (missed + counted) if missed else 0.0


def _flop_totals(run: ModuleRun) -> Record:
    total = sum((flops_of(row, run.phase) for row in run.rows), Flops())
    return {
        "matmul_flops": total.matmul,
        "executed_flops": total.executed,
        "other_flops": total.other,
        "macs": total.matmul // 2,
        "uncounted": [{"op": x.op, "path": x.path, "calls": x.calls} for x in run.uncounted],
        "uncounted_share": _uncounted_share(run),
    }


def _records(run: ModuleRun) -> list[Record]:
    return [
        {
            "path": row.path,
            "op": class_name(row),
            "group": row.group,
            "times": row.times,
            "inputs": [list(shape) for shape in row.inputs],
            "outputs": [list(shape) for shape in row.outputs],
            "weights": {name: list(shape) for name, shape in row.weights.items()},
            "params": row.params,
            "flops": flops_of(row, run.phase).matmul,
        }
        for row in run.rows
    ]


def _shapes(shapes: Iterable[Sequence[Any]]) -> str:
    return " ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes)


def summary_report(run: ModuleRun, depth: int = 3) -> Report:
    """The report of `archcli summary`: parameters and FLOPs by module, cut after `depth` steps; 0 for all."""
    totals = {"params": sum(row.params for row in run.rows), **_flop_totals(run)}
    columns = (
        Column("path", "path"),
        Column("op", "class"),
        Column("times", "times", "number"),
        Column("shape", "output", minor=True),
        Column("params", "params", "count"),
        Column("flops", "matmul FLOPs", "flops"),
    )
    footer = {"path": "total", "params": totals["params"], "flops": totals["matmul_flops"]}
    table = Table("Modules", columns, list(_tree(run, depth)), footer)
    return module_report(
        run,
        "summary",
        CONVENTION,
        totals=totals,
        rows=_records(run),
        tables=(table,),
        keys=KEYS,
        inputs={"depth": depth},
        notes=_counting_notes(run),
        headline=f"{short_count(totals['params'])} parameters; {_flops_in_words(run, totals)}",
    )


def _tree(run: ModuleRun, depth: int) -> Iterator[Record]:
    """A line for each module down to a depth, those below it summed."""
    lines: dict[str, Record] = {}
    for row in run.rows:
        steps = row.path.split(".") if row.path else []
        cut = steps[:depth] if depth else steps
        path = ".".join(cut)
        whole = row.path == path
        holders = row.op.holders if type(row.op) is ModuleCall else ()
        op, times = holders[len(cut)] if len(cut) < len(holders) else (class_name(row), row.times)
        line = lines.setdefault(
            path, {"path": path or run.name, "op": op, "times": times, "shape": "", "params": 0, "flops": 0}
        )
        line["shape"] = _shapes(row.outputs) if whole else line["shape"]
        line["params"] += row.params
        line["flops"] += flops_of(row, run.phase).matmul
    yield from lines.values()


def show_report(run: ModuleRun) -> Report:
    """The report of `archcli show`: every row, with shapes."""
    params = sum(row.params for row in run.rows)
    # without FLOPs: an operation may have no formula for them
    rows = [{key: record[key] for key in SHAPES} for record in _records(run)]
    columns = (
        Column("path", "path"),
        Column("times", "times", "number"),
        Column("op", "class"),
        Column("shape", "output"),
        Column("params", "params", "count"),
    )
    shown = [{**row, "shape": _shapes(row["outputs"])} for row in with_names(run, rows)]
    totals = {"params": params, "rows": len(rows), "recurrences": []}
    table = Table("Forward", columns, shown, {"path": "total", "params": params})
    headline = f"{short_count(params)} parameters; {len(rows):,} different operations"
    return module_report(
        run, "show", PARAMS, totals=totals, rows=rows, tables=(table,), keys=SHAPES, headline=headline
    )


def _summed(run: ModuleRun, name: Callable[[Row], str], size: Callable[[Row], Any]) -> dict[str, Any]:
    """The sum of the sizes of rows with equal names; sums of 0 are left out."""
    sums: dict[str, Any] = {}
    for row in run.rows:
        sums[name(row)] = sums.get(name(row), 0) + size(row)
    return {name: total for name, total in sums.items() if total}


def _group(row: Row) -> str:
    return row.group


def _params(row: Row) -> Any:
    return row.params


def params_report(run: ModuleRun, depth: int = 3) -> Report:
    """The report of `archcli params`: parameters and bytes, by group and by path."""
    params = sum(row.params for row in run.rows)
    groups = _summed(run, _group, _params)
    totals = {
        "params": params,
        "trainable_params": run.trained,
        "by_group": dict(sorted(groups.items(), key=lambda item: -item[1])),
        "bytes": sum(run.dtypes.values()),
        "buffer_bytes": run.buffers,
        "bytes_by_dtype": dict(run.dtypes),
    }
    paths = _summed(run, lambda row: ".".join(row.path.split(".")[: depth or None]), _params)
    rows = [{"path": path, "params": n} for path, n in paths.items()]
    columns = (Column("path", "path"), Column("params", "params", "count"))
    tables = (
        facts(
            "Parameters",
            ("total", params, "count"),
            ("trained", totals["trainable_params"], "count"),
            ("bytes", totals["bytes"], "bytes"),
            ("bytes of buffers", run.buffers, "bytes"),
        ),
        Table(
            "By group",
            (Column("group", "group"), Column("params", "params", "count")),
            [{"group": group, "params": n} for group, n in totals["by_group"].items()],
        ),
        Table("By path", columns, with_names(run, rows), {"path": "total", "params": params}),
    )
    return module_report(
        run,
        "params",
        PARAMS,
        totals=totals,
        rows=rows,
        tables=tables,
        keys=("path", "params"),
        inputs={"depth": depth},
        headline=f"{short_count(params)} parameters; {both_bytes(totals['bytes'])}",
    )


def flops_report(run: ModuleRun) -> Report:
    """The report of `archcli flops`: FLOPs by group and by module."""
    by_group = _summed(run, _group, lambda row: flops_of(row, run.phase).matmul)
    totals = {**_flop_totals(run), "by_group": by_group}
    rows = [_flops_record(run, row) for row in run.rows]
    columns = (
        Column("path", "path"),
        Column("op", "class"),
        Column("matmul_flops", "matmul", "flops"),
        Column("executed_flops", "executed", "flops"),
        Column("other_flops", "other", "flops"),
    )
    table = Table("FLOPs", columns, with_names(run, rows), {**totals, "path": "total"})
    return module_report(
        run,
        "flops",
        CONVENTION,
        totals=totals,
        rows=rows,
        tables=(table,),
        notes=_counting_notes(run),
        headline=_flops_in_words(run, totals),
    )


def _flops_in_words(run: ModuleRun, totals: Record) -> str:
    """`3.41 GFLOP for a forward`."""
    return f"{short_flops(totals['matmul_flops'])} for {PASSES.get(run.phase, f'a {run.phase}')}"


def _flops_record(run: ModuleRun, row: Row) -> Record:
    flops = flops_of(row, run.phase)
    return {
        "path": row.path,
        "op": class_name(row),
        "group": row.group,
        "matmul_flops": flops.matmul,
        "executed_flops": flops.executed,
        "other_flops": flops.other,
    }
