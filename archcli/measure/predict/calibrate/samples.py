"""Samples: measured rows of profiles, and the kernels that ran in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from archcli.errors import ArchError, Problem, quote
from archcli.launches.kernel import KernelRun
from archcli.measure.predict.constants import Rates, Terms, operation_calls
from archcli.measure.predict.times import NO_TERMS, bare_terms, floor_terms, kind_of, least_terms
from archcli.measure.profile.charges import GRADIENT_SUMS, operator_name

# the fit takes the logarithm of measured seconds
LEAST_S = 1e-9
LEAST_SHARE, LEAST_LAUNCHES = 0.9, 0.5
"""A row stands for a kind of kernels that has so much of its floor's time, and so many of its launches."""


class MeasuredRun(NamedTuple):
    """A profile: its file, the kernels of its pass, seconds of its rows by path, and those beside kernels.

    `sizes` tell one pass from another: the model and what it was run with. `trains` is whether it has a
    backward.
    """

    name: str
    sizes: str
    kernels: tuple[KernelRun, ...]
    seconds: Mapping[str, float]
    framework_s: float
    trains: bool = False


class SampleWork(NamedTuple):
    """Equal kernels of a row: their kind, the bare terms of one, how many, and what tells their size.

    No expected term is below that of `bound`; `floor_s` are seconds of one at the floor.
    """

    kind: str
    bare: Terms
    bound: Terms
    floor_s: float
    times: int
    size: tuple[str, int, int]

    @property
    def least(self) -> float:
        """Seconds of all at the floor."""
        return self.times * self.floor_s


class RowSample(NamedTuple):
    """A measured row that stands for one kind of kernels, and its share of the seconds of its pass.

    What else runs in it takes `beside` at its floor. Rows of one `size` are held out together.
    """

    kind: str
    works: tuple[SampleWork, ...]
    seconds: float
    beside: float
    share: float

    @property
    def size(self) -> frozenset[object]:
        """What tells its kernels from those of other sizes."""
        return frozenset(work.size for work in self.works)


def row_name(run: KernelRun) -> str:
    """The path of a profile's row that has a kernel."""
    return GRADIENT_SUMS if run.stage == "sums" else operator_name(run.path)


def samples_of(run: MeasuredRun, rates: Rates) -> Iterator[RowSample]:
    """The rows of a profile that stand for one kind; what else runs in them is taken at its floor.

    Raises ArchError where the profile has other rows than the model, such as those of a lesser depth.
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
            beside = sum(work.least for work in works if work.kind != kind)
            yield RowSample(kind, _joined(works, kind), seconds, beside, seconds / total)


def framework_sample(run: MeasuredRun, rates: Rates) -> RowSample:
    """What a pass takes beside its kernels, as one row: so many calls, each of the mean of bytes written."""
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
    kind = kind_of(run.op_class, kernel.name)
    bare, size = bare_terms(kernel, kind, rates), (kernel.name, kernel.flops, kernel.bytes)
    floor = floor_terms(kernel, bare, rates)
    floor_s = max(floor.compute, floor.memory)
    return SampleWork(kind, bare, least_terms(floor, kind, rates), floor_s, run.times, size)


def _joined(works: Iterable[SampleWork], kind: str) -> tuple[SampleWork, ...]:
    """Those of a kind, equal ones of several layers together."""
    often: dict[SampleWork, int] = {}
    for work in works:
        if work.kind == kind:
            alike = work._replace(times=1)
            often[alike] = often.get(alike, 0) + work.times
    return tuple(work._replace(times=times) for work, times in often.items())


def _kind(works: Iterable[SampleWork]) -> str:
    """The kind that a row stands for; empty where there is none."""
    works = [*works]
    least: dict[str, float] = {}
    number: dict[str, int] = {}
    for work in works:
        least[work.kind] = least.get(work.kind, 0.0) + work.least
        number[work.kind] = number.get(work.kind, 0) + work.times
    kind = max(least, key=lambda name: least[name])
    is_most = least[kind] >= LEAST_SHARE * sum(least.values())
    return kind if is_most and number[kind] >= LEAST_LAUNCHES * sum(number.values()) else ""
