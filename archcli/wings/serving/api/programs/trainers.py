"""`trainers`, the Python function of `archcli trainers`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from archcli.api.asking.question import Option, asks
from archcli.measure.report import Column, Report, Table
from archcli.wings.serving.api.programs.engines import FACTS, as_cell, fact_rows
from archcli.wings.serving.devices.engines import load_trainer
from archcli.wings.serving.devices.engines import trainers as names_of_trainers

CONVENTION = (
    "What a program that trains holds otherwise than archcli's modules, by its own source; its version is "
    "the one that was read. `--trainer` of memory and predict takes a name; `none` is the model as archcli "
    "builds it."
)
MEANINGS = {
    "methods": "what --method may ask for",
    "norms": "in steps: RMSNorm is several functions of torch, each with tensors of its own",
    "kernels": "fused: activations, sums and norms run in few kernels, and are timed as --compile times them",
    "autocast": "the type in which products and attention compute, whatever that of the weights",
    "attention": "shared by torch: keys within scaled_dot_product_attention; flex: one kernel for sinks too",
    "rest": "of frozen weights beside packed ones",
    "adapters": "of adapters beside weights in 16 bits",
    "packed_adapters": "of adapters beside packed weights",
    "packed_inputs": "kept: products with packed weights keep what they read",
    "projections": "fused: one product makes queries, keys and values, and adapters are padded to its width",
    "reference": "copy: a frozen model beside one whose weights all train",
    "sequences": "of each example of a batch",
    "weights": "of weights where all train",
    "shards": "of weights that devices share; they compute in the model's type",
    "buckets": "numbers of a buffer in which gradients are reduced",
    "zero": "stages of ZeRO by which it shares a model; left out, it is known of one device",
    "outputs": "held: logits live until the next step has its own",
    "pools": "streams: torch's allocator keeps sums of gradients and gathered weights apart (FSDP2)",
    "reserved": "what torch's allocator was seen to reserve beyond the count, as a share of it",
    "compared": "models whose peaks were compared with those of its runs",
    "usual": "options of archcli that it sets where they are left out",
    "arguments": "its own names of what archcli asks",
}
"""Facts of a trainer in the order of their table, with the meaning where the name is not enough."""
UNITS = {"reserved": "share"}
"""Units of facts that are no text."""
COLUMNS = (
    Column("name", "trainer"),
    Column("title", "title", minor=True),
    Column("version", "version"),
    Column("methods", "methods"),
    Column("source", "source", minor=True),
)
TrainerArgument = Annotated[
    str | None, Option("One trainer.", metavar="[TRAINER]", completes="trainers", argument=True)
]


@dataclass(frozen=True)
class TrainersOptions:
    """Options of `archcli trainers`."""

    trainer: TrainerArgument = None


@asks(TrainersOptions)
def trainers(options: TrainersOptions) -> Report:
    """Programs that train, or one with its facts: the report of `archcli trainers`.

    Example: `trainers("peft").rows[0]["fact"]` is methods.
    """
    return _list_report() if options.trainer is None else _trainer_report(load_trainer(options.trainer))


def _list_report() -> Report:
    facts = [load_trainer(name) for name in names_of_trainers()]
    rows = [{column.key: as_cell(known[column.key]) for column in COLUMNS} for known in facts]
    headline = f"{len(rows)} trainers: {', '.join(row['name'] for row in rows)}"
    tables = (Table("", COLUMNS, rows),)
    return Report("trainers", {}, {}, CONVENTION, {"trainers": len(rows)}, rows, tables, headline=headline)


def _trainer_report(facts: Mapping[str, Any]) -> Report:
    rows = list(fact_rows(facts, MEANINGS))
    about = {"name": facts["name"], "source": f"trainer {facts['name']}"}
    totals = {"facts": len(rows), "version": facts["version"], "source": facts["source"]}
    return Report(
        "trainers",
        about,
        {},
        CONVENTION,
        totals,
        rows,
        (Table("", FACTS, [{**row, "unit": UNITS.get(row["fact"], "text")} for row in rows]),),
        (f"{facts['title']} {facts['version']}: {facts['source']}",),
        headline=f"{facts['title']} {facts['version']}",
    )
