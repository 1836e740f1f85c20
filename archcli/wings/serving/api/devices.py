"""devices: `archcli devices` in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from archcli.api.asking.question import Option, asks
from archcli.errors import ArchError, quote
from archcli.measure.report import Column, Report, Table
from archcli.measure.survey.presets import number_of, select
from archcli.units import binary_bytes
from archcli.wings.serving.api.known_device.listed import ListedDevice, listed_devices
from archcli.wings.serving.devices.datasheet import (
    CERTAINTIES,
    FIGURES,
    Datasheet,
    device_named,
    load_datasheet,
    read_datasheet,
)
from archcli.wings.serving.devices.efficiency import GROUPS
from archcli.wings.serving.devices.instances import instance_of
from archcli.wings.serving.devices.names import LOCAL, is_file, is_listed_name, split_count

CONVENTION = (
    "Rates are dense, in 1e12 per second, and of a GeForce with fp32 accumulation; bandwidths in 1e9 bytes "
    "per second. memory_bytes is what the driver reports as total where that is known, else the label's GB "
    "taken as GiB. Certainty: A the maker's document, B computed from one or read in one place, C estimated, "
    "which is printed with ~. A device of several memories is listed with its largest: m3-pro:18gb. "
    "`archcli devices NAME` shows the source of each figure."
)
COLUMNS = (
    Column("name", "device"),
    Column("vendor", "vendor", minor=True),
    Column("kind", "kind", minor=True),
    Column("memory_bytes", "memory", "bytes"),
    Column("bandwidth_gb_s", "bandwidth GB/s", "number"),
    Column("bf16_tflops", "bf16 TFLOP/s", "number"),
    Column("fp16_tflops", "fp16 TFLOP/s", "number"),
    Column("fp8_tflops", "fp8 TFLOP/s", "number", minor=True),
    Column("fp32_tflops", "fp32 TFLOP/s", "number", minor=True),
    Column("link_gb_s", "link GB/s", "number", minor=True),
)
RATES = ("bf16", "fp16", "fp32")
"""Dtypes whose rate the first line has, the first that is known."""
ESTIMATED = CERTAINTIES[-1]
TEXTS = ("name", "vendor", "kind", "architecture", "link")
OF_BUS = {"bus_bits", "pin_gbit_s"}
"""Figures whose product is the bandwidth: shown of one device, and no conditions."""
CONDITIONS = (
    *COLUMNS,
    Column("architecture", "architecture"),
    *(
        Column(key, key, "number")
        for key in FIGURES
        if key not in {column.key for column in COLUMNS} | OF_BUS
    ),
)

OF_CONSTANTS = (
    "Constants turn counts into an expected time. Their error is the mean on measurements not used for "
    "fitting; for 80% of these, measured over expected lies within the range."
)
CONSTANTS = (
    Column("of", "constants"),
    Column("values", "values"),
    Column("error", "error", "share"),
    Column("within", "80% within"),
    Column("rows", "rows", "number", minor=True),
    Column("table", "fitted on", minor=True),
    Column("fitted_on", "of device", minor=True),
    Column("fitted", "on", "date", minor=True),
)

DeviceName = Annotated[
    str | None,
    Option(
        "One device, or a YAML file of one's own.", metavar="[DEVICE]", completes="devices", argument=True
    ),
]
Where = Annotated[
    Sequence[str],
    Option(
        "Only devices that meet it: memory_bytes in 40GB..80GB, vendor=AMD. Repeatable; all must hold.",
        metavar="CONDITION",
    ),
]
Order = Annotated[str | None, Option("Sort by a column.", metavar="COLUMN[:desc]")]


@dataclass(frozen=True)
class DevicesOptions:
    """Options of `archcli devices`."""

    device: DeviceName = None
    where: Where = ()
    sort: Order = None


@asks(DevicesOptions)
def devices(options: DevicesOptions) -> Report:
    """GPUs and other devices, or one with the source of each figure: the report of `archcli devices`.

    `where` are conditions such as "memory_bytes in 40GB..80GB", all of which must hold; `sort` is a column.

    Example: `devices("h100-sxm").rows[0]["figure"]` is memory_bytes.
    """
    if options.device is None:
        return _list_report(options.where, options.sort)
    report = _datasheet_report(_datasheet(options.device))
    # the sizes that it is sold with stand in the report: what is left to say is another name's
    name = split_count(options.device)[1]
    instance = instance_of(name)
    note = "" if instance is None else instance.note
    if name.lower() == LOCAL:
        note = "`archcli profile gpt2` measures the rates of this machine, and predict and fit take them"
    if instance is None and is_listed_name(name):
        note = device_named(name).note
    return replace(report, notes=(*report.notes, *filter(None, [note])))


def _datasheet(text: str) -> Datasheet:
    """The figures of one device, or of this machine. Raises ArchError where several are asked for."""
    # a file may be called 2x4.yaml, which is no count
    number, name = (1, text) if is_file(text) else split_count(text)
    if instance := instance_of(name):
        name = instance.device
    if number > 1:
        raise ArchError(f"figures are those of one device, and {quote(text)} are {number:,}", name)
    if name.lower() == LOCAL:
        from archcli.wings.serving.devices.this import this_machine  # asks drivers

        return read_datasheet(this_machine(), LOCAL)._replace(name=LOCAL)
    return load_datasheet(name)


def _list_report(where: Sequence[str], sort: str | None) -> Report:
    listed = {device.name: device for device in listed_devices()}
    rows = select([_record(device) for device in listed.values()], CONDITIONS, where, sort)
    inputs = {key: value for key, value in (("where", list(where)), ("sort", sort)) if value}
    notes = () if rows else ("no device meets the conditions.",)
    # estimates are printed with `~`
    shown = [row | {"estimates": listed[row["name"]].estimates} for row in rows]
    table = Table("", COLUMNS, shown)
    totals = {"devices": len(rows)}
    headline = number_of("devices", len(rows), len(listed), where)
    keys = (*TEXTS, *FIGURES)
    return Report(
        "devices", {}, inputs, CONVENTION, totals, rows, (table,), notes, keys=keys, headline=headline
    )


def _record(device: ListedDevice) -> dict[str, Any]:
    """A record of texts and figures; a figure that is not known is None."""
    texts = {key: getattr(device, key) for key in TEXTS}
    return texts | {key: device.figures.get(key) for key in FIGURES}


def _datasheet_report(device: Datasheet) -> Report:
    """The report of one device: a line for each figure, with its certainty and source."""
    rows = [
        {"figure": key, "unit": FIGURES[key], **figure._asdict()} for key, figure in device.figures.items()
    ]
    shown = [row | {"estimates": ["value"] * (row["certainty"] == ESTIMATED)} for row in rows]
    columns = (
        Column("figure", "figure"),
        Column("value", "value", "number"),
        Column("unit", "unit", minor=True),
        Column("certainty", "certainty"),
        Column("source", "source"),
    )
    also = f"also in {device.second_source}" if device.second_source else ""
    facts = {"architecture": device.architecture, "link": device.link}
    remarks = (f"{key}: {value}" for key, value in facts.items() if value)
    notes = (*remarks, *filter(None, (also, device.remark, *_sizes(device))))
    about = {"name": device.name, "source": f"device {device.name}"}
    constants = list(_constants(device))
    totals = {"figures": len(rows), "efficiency": device.efficiency}
    tables = [Table("", columns, shown)]
    if constants:
        tables.append(Table("constants", CONSTANTS, constants))
    convention = f"{CONVENTION} {OF_CONSTANTS}" if constants else CONVENTION
    headline = ", ".join(_in_words(device))
    return Report("devices", about, {}, convention, totals, rows, tables, notes, headline=headline)


def _in_words(device: Datasheet) -> Iterator[str]:
    """`79.1 GiB at 3,350 GB/s, 989.4 TFLOP/s in bf16`: what decides what fits and how fast it is."""
    known = {key: figure.value for key, figure in device.figures.items()}
    memory, bandwidth = known.get("memory_bytes"), known.get("bandwidth_gb_s")
    if memory is not None:
        yield binary_bytes(memory) + (f" at {bandwidth:,} GB/s" if bandwidth is not None else "")
    rate = next((name for name in RATES if f"{name}_tflops" in known), None)
    if rate is not None:
        yield f"{known[f'{rate}_tflops']:,} TFLOP/s in {rate}"


def _sizes(device: Datasheet) -> Iterator[str]:
    """What is sold beside the device: other memories; and whose constants it borrows."""
    if device.memory_sizes:
        name = device.name.partition(":")[0]
        sizes = ", ".join(f"{name}:{size}gb" for size in sorted(device.memory_sizes))
        yield f"memories: {sizes}" + ("" if ":" in device.name else "; the largest is shown")
    if device.same_chip:
        yield f"constants: those of {device.same_chip}, which has the same chip"


def _constants(device: Datasheet) -> Iterator[dict[str, Any]]:
    """A record for each of the device's constants: what they are, and how well they predict."""
    for group, entries in device.efficiency.items():
        for name, entry in entries.items():
            values = {key: value for key, value in entry.items() if key in GROUPS[group].numbers}
            yield {
                **entry,
                "of": f"{group.replace('_', ' ')}, {name.replace('_', ' ')}",
                "values": ", ".join(f"{key} {value:g}" for key, value in values.items()),
                "within": f"{entry['low']:g} to {entry['high']:g}",
            }
