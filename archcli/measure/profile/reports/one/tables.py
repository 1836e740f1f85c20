"""Tables of a profile of one model: by class, by operator, and how far to trust them."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.measure.profile.fold import Breakdown
from archcli.measure.profile.operators import abbreviated
from archcli.measure.profile.quality import fastest_to_slowest, is_reliable, overhead_ratio
from archcli.measure.profile.reports.compiled import kernel_facts
from archcli.measure.profile.reports.disturbance import disturbance_facts, disturbance_figures
from archcli.measure.profile.reports.gpu import device_facts, is_gpu
from archcli.measure.profile.reports.one.figures import columns_of, figures_of
from archcli.measure.profile.schema.figures import Operator
from archcli.measure.report import Column, Table, Unit, facts
from archcli.recording.classes import FRAMEWORK, RANDOM, UNATTRIBUTED, label_of
from archcli.recording.recording import Recording


def class_table(recording: Recording, breakdown: Breakdown) -> Table:
    """Figures by class of operation, framework and the unattributed rest last."""
    by_class = [(name, tally) for name, tally in breakdown.by_class.items() if tally.seconds or tally.bytes]
    by_class.sort(key=lambda entry: (entry[0] in {FRAMEWORK, UNATTRIBUTED}, -entry[1].seconds))
    records = [{"class": label_of(name), **figures_of(breakdown, tally)} for name, tally in by_class]
    whole = {"class": "plain wall", **figures_of(breakdown, breakdown.whole)}
    title = "Where the time goes, extrapolated" if recording.extrapolated else "Where the time goes"
    if not is_reliable(recording, breakdown):
        title += f": NOT RELIABLE{' HERE' * recording.extrapolated}, see the notes"
    return Table(title, (Column("class", "class"), *columns_of(breakdown)), records, whole)


def operator_table(breakdown: Breakdown, operators: list[Operator], top: int) -> Table:
    """Figures by operator, the slowest first; `top` 0 shows all."""
    slowest = operators[: top or None]
    records = [
        {**row, "path": abbreviated(row["path"], row["operators"]), "class": label_of(row["class"])}
        for row in slowest
    ]
    title = "By operator"
    if len(slowest) < len(operators):
        title += f": the slowest {len(slowest)} of {len(operators)}"
    columns = (Column("path", "operator"), Column("class", "class", minor=True), *columns_of(breakdown))
    return Table(title, columns, records)


def quality_table(recording: Recording, breakdown: Breakdown) -> Table:
    """The quality table: reliability of the figures, and the machine's settings."""
    framework = f"framework ({'the device idle' if is_gpu(recording) else 'Python, dispatch'}, views)"
    return facts(
        "How far to trust it",
        ("plain wall, median", breakdown.wall_s, "seconds"),
        *([] if recording.extrapolated else _pair_facts(recording)),
        ("traced / plain", overhead_ratio(recording), "ratio"),
        ("operations / plain", breakdown.attributed_share, "share"),
        (framework, breakdown.share_of(FRAMEWORK), "share"),
        ("unattributed", breakdown.share_of(UNATTRIBUTED), "share"),
        ("torch operations outside of any row", breakdown.unlabelled_s / breakdown.wall_s, "share"),
        *kernel_facts(recording),
        ("drawing random numbers", breakdown.share_of(RANDOM), "share"),
        ("page faults per pass", recording.page_faults, "count"),
        ("time in the system, for page faults above all, all threads", recording.system_s, "seconds"),
        ("involuntary context switches per second", round(recording.switches_per_s), "count"),
        ("processes per processor when it began", f"{recording.load:.1f}", "text"),
        *disturbance_facts(disturbance_figures(recording.disturbance)),
        *device_facts(recording, breakdown.wall_s),
        *((name, value, "text") for name, value in recording.machine.items()),
    )


def _pair_facts(recording: Recording) -> Iterator[tuple[str, str, Unit]]:
    yield "plain wall, fastest to slowest", fastest_to_slowest(recording), "text"
    yield "pairs of passes, rejected as disturbed", f"{len(recording.traced_s)}, {recording.rejected}", "text"
