"""Samples to fit constants to: measured rows of profiles, and the kernels of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from archcli.errors import ArchError, Problem, quote
from archcli.wings.serving.launches.kernel import KernelRun
from archcli.wings.serving.predict.constants import Rates, Terms
from archcli.wings.serving.predict.rank.kernels import operation_calls
from archcli.wings.serving.predict.times import NO_TERMS, roofline
from archcli.wings.serving.recorded.operators import GRADIENT_SUMS, operator_name

LEAST_S = 1e-9
"""Lower limit of measured seconds: the fit takes their logarithm."""
LEAST_SHARE, LEAST_LAUNCHES = 0.9, 0.5
"""A row stands for a kind of kernels with 90% of its floor time and half of its launches or more."""


class MeasuredRun(NamedTuple):
    """A profile: its file, kernels, seconds of rows by path, and seconds outside of kernels.

    name: of the file.
    sizes: identifies the pass: the model and the settings of its run.
    kernels: predicted launches.
    seconds: measured, of rows by path.
    framework_s: measured outside of kernels.
    trains: it has a backward.
    """

    name: str
    sizes: str
    kernels: tuple[KernelRun, ...]
    seconds: Mapping[str, float]
    framework_s: float
    trains: bool = False


class SampleWork(NamedTuple):
    """Equal kernels of a row.

    kind: matrix products of a dtype, or a class of memory-bound kernels.
    bare: terms of one kernel at the rates of the datasheet.
    bound: the least value of each expected term.
    floor_s: seconds of one kernel at the floor.
    times: how many there are.
    size: (kernel, FLOPs, bytes): equal for kernels that take equally long.
    """

    kind: str
    bare: Terms
    bound: Terms
    floor_s: float
    times: float
    size: tuple[str, int, int]

    @property
    def least(self) -> float:
        """Seconds of all `times` kernels at the floor."""
        return self.times * self.floor_s


class RowSample(NamedTuple):
    """A measured row that stands for one kind of kernels, and its share of the seconds of its pass.

    kind, works: the kind, and the kernels of it.
    seconds: measured, of all kernels of the row.
    others_s: seconds of kernels of other kinds, at their floor.
    share: of the seconds of the pass.
    In cross-validation rows of equal `size` are held out together.
    """

    kind: str
    works: tuple[SampleWork, ...]
    seconds: float
    others_s: float
    share: float

    @property
    def size(self) -> frozenset[object]:
        """The sizes of its kernels."""
        return frozenset(work.size for work in self.works)


def row_name(run: KernelRun) -> str:
    """The path of the profile's row in which a kernel is measured."""
    return GRADIENT_SUMS if run.stage == "sums" else operator_name(run.path)


def samples_of(run: MeasuredRun, rates: Rates) -> Iterator[RowSample]:
    """The rows of a profile that stand for one kind of kernels; other kinds in them count at their floor.

    Raises ArchError where the profile has rows that the model lacks, as after a profile with --depth.
    """
    rows: dict[str, list[SampleWork]] = {}
    for kernel in run.kernels:
        rows.setdefault(row_name(kernel), []).append(work_of(kernel, rates))
    strange = next((path for path in run.seconds if path not in rows and run.seconds[path] > 0), None)
    if strange is not None:
        what = f"the row {quote(strange)} is none of this model's pass"
        raise ArchError(Problem(what, "profile it anew, without --depth", path=run.name))
    total = sum(run.seconds.values())
    for path, works in rows.items():
        kind, seconds = _kind(works), run.seconds.get(path, 0.0)
        if kind and seconds > 0:
            others_s = sum(work.least for work in works if work.kind != kind)
            yield RowSample(kind, _joined(works, kind), seconds, others_s, seconds / total)


def framework_sample(run: MeasuredRun, rates: Rates) -> RowSample:
    """The time of a pass outside of kernels as one row of equal calls, each writing the mean bytes."""
    calls = [*operation_calls(run.kernels, "train" if run.trains else "forward")]
    number = sum(call.times for call in calls)
    written = sum(call.times * call.kernel.written for call in calls)
    bare = Terms(0.0, 0.0, written / number / rates.bandwidth)
    work = SampleWork(calls[0].kernel.name, bare, NO_TERMS, 0.0, int(number), (run.sizes, 0, 0))
    seconds = max(run.framework_s, LEAST_S)
    return RowSample(work.kind, (work,), seconds, 0.0, seconds / (seconds + sum(run.seconds.values())))


def work_of(run: KernelRun, rates: Rates) -> SampleWork:
    """The kernels of a run, with terms at the rates of matrix products and of memory."""
    kernel = run.kernel
    known, size = roofline(kernel, run.op_class, rates), (kernel.name, kernel.flops, kernel.bytes)
    return SampleWork(known.kind, known.bare, known.least, known.limit, run.times, size)


def _joined(works: Iterable[SampleWork], kind: str) -> tuple[SampleWork, ...]:
    """The kernels of a kind; equal ones of several layers are one entry."""
    often: dict[SampleWork, float] = {}
    for work in works:
        if work.kind == kind:
            alike = work._replace(times=1)
            often[alike] = often.get(alike, 0) + work.times
    return tuple(work._replace(times=times) for work, times in often.items())


def _kind(works: Iterable[SampleWork]) -> str:
    """The kind of kernels that a row stands for; empty for a mixed row."""
    works = [*works]
    least: dict[str, float] = {}
    number: dict[str, float] = {}
    for work in works:
        least[work.kind] = least.get(work.kind, 0.0) + work.least
        number[work.kind] = number.get(work.kind, 0) + work.times
    kind = max(least, key=lambda name: least[name])
    is_most = least[kind] >= LEAST_SHARE * sum(least.values())
    return kind if is_most and number[kind] >= LEAST_LAUNCHES * sum(number.values()) else ""
