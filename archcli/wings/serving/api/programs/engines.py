"""`engines`, the Python function of `archcli engines`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from archcli.api.asking.question import Option, asks
from archcli.api.asking.subject import taken_notes
from archcli.measure.report import Column, Report, Table
from archcli.wings.serving.devices.engines import engine_named, load_engine, load_kernels, measured_engines
from archcli.wings.serving.devices.engines import engines as names_of_engines

CONVENTION = (
    "What an engine does by default, by its own source and documents; its version is the one that was read. "
    "`--engine` of memory, predict and kvcache takes a name; `none` is the model as archcli builds it."
)
MEANINGS = {
    "serves": "the cache is allocated once, and attention of any kind is one kernel",
    "fuses": "",
    "graphs": "passes whose kernels are launched together",
    "formats": "of weights that it reads; gguf are all of llama.cpp's",
    "converted": "published forms, and what experts in them become in its files",
    "runs_on": "sm_75 is that compute capability or a later one; else an architecture, or a maker and a kind",
    "formats_on": "devices on which a format or a cache runs, where not on all of these",
    "unusual": "formats that few serve with: never offered, taken by --dtype alone",
    "native_only": "formats that it does not unpack: on devices that multiply them as they are",
    "cache_dtypes": "types of the cache",
    "cache_pairs": "keys and values may have two types, --kv-dtype q8_0:q4_0",
    "cache_block": "a cache has a multiple of so many tokens",
    "window_extra": "tokens that a cache holds beyond a window",
    "chunk": "tokens of a prompt at a time, by the memory of a device",
    "indexer_scores": "the most that it holds at once of an indexer's scores, added over heads",
    "gathered_keys": "contexts of an indexer's keys for which there is room outside of the cache",
    "latent_prompts": "the form of latent attention in prompts",
    "graph_buffer": "bytes of an activation, and copies of what enters a card, of several",
    "outputs": "logits that are held",
    "profile_run": "bytes of a logit of all sequences at once, in a run that sizes the cache",
    "graph_memory": "of graphs of launches, the least and the most in logs",
    "hybrid_pages": "beside states: tokens of which a page has a multiple, and pages of a state",
    "block_pages": "of compressed attention: tokens of a page of keys, windows and open blocks",
    "adapter_slots": "projections that a slot of an adapter has: all, or those packed with its targets",
    "adapter_ranks": "ranks of slots",
    "max_sequences": "sequences that a replica runs at once at most, by the memory of a device",
    "mixes_prompts": "prompts run in one pass with the tokens of other sequences, or in turn with them",
    "cuts_prompts": "a prompt is cut to fill a pass",
    "pass_tokens": "of a pass that runs in pieces of a chunk",
    "prompts_at_once": "prompts that run beside each other, each in chunks",
    "reserves": "tokens for which there is room where a request is admitted: prompt, all, or a share to come",
    "reserve_share": "of tokens to come: at first, least, steps until it, tokens ahead after a retraction",
    "pools": "states over tokens, slots of states for a sequence, tokens of a window over all tokens",
    "margin": "bytes that it was seen to take beyond the count, at most: with less left a model is tight",
    "training_margin": "the same of trainers, as a share of the count",
    "adapters_margin": "where adapters are trained, as a share of activations and temporaries",
    "utilization": "the share of a device's memory that it takes",
    "mxfp4_experts": "multiples to which experts in mxfp4 are padded: the model's width, that of an expert",
    "recurrent_dtype": "of recurrent states; without it, and of inputs of convolutions, the model's dtype",
    "convolution_dtype": "of the inputs of convolutions that are kept",
    "in_ram": "left in the memory of the CPU",
    "split": "what several devices share: layers are whole, each on one of them",
    "all_reduce": "",
    "draft_words": "entries by which the table of a draft may differ, as padding",
    "experts": "",
    "redundant_experts": "of copies of experts where ep does not divide their number",
    "command": "its own options for what archcli counts: --command",
    "check": "those of a program that measures its speed",
}
"""Facts of an engine in the order of their table, with the meaning where the name is not enough."""
NOT_LISTED = ("fuses", "command", "check")
"""Facts of one engine that the list of all leaves out."""
COLUMNS = (
    Column("name", "engine"),
    Column("title", "title", minor=True),
    Column("version", "version"),
    Column("chunk", "chunk"),
    Column("cache_block", "block", "number"),
    Column("utilization", "takes", "share"),
    Column("source", "source", minor=True),
)
FACTS = (
    Column("fact", "fact"),
    Column("value", "value", unit_key="unit", wraps=True),
    Column("meaning", "meaning", minor=True),
    Column("source", "source", minor=True),
)
EngineArgument = Annotated[
    str | None, Option("One engine.", metavar="[ENGINE]", completes="engines", argument=True)
]


@dataclass(frozen=True)
class EnginesOptions:
    """Options of `archcli engines`."""

    engine: EngineArgument = None


@asks(EnginesOptions)
def engines(options: EnginesOptions) -> Report:
    """Engines that run inference, or one with its facts: the report of `archcli engines`.

    Example: `engines("vllm").rows[0]["fact"]` is serves.
    """
    if options.engine is None:
        return _list_report()
    named = replace(options, engine=engine_named(options.engine))
    report = _engine_report(load_engine(str(named.engine)))
    return replace(report, notes=(*report.notes, *taken_notes(named)))


def _list_report() -> Report:
    rows = [dict(_record(load_engine(name))) for name in names_of_engines()]
    keys = tuple(rows[0])
    return Report(
        "engines",
        {},
        {},
        CONVENTION,
        {"engines": len(rows)},
        rows,
        (Table("", COLUMNS, rows),),
        keys=keys,
        headline=f"{len(rows)} engines: {', '.join(row['name'] for row in rows)}",
    )


def _record(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The facts of one engine as a row of the list."""
    for key in ("name", "title", "version", "source"):
        yield key, facts[key]
    yield from ((key, as_cell(facts.get(key))) for key in MEANINGS if key not in NOT_LISTED)


def _engine_report(facts: Mapping[str, Any]) -> Report:
    rows = list(fact_rows(facts, MEANINGS))
    about = {"name": facts["name"], "source": f"engine {facts['name']}"}
    notes = (f"{facts['title']} {facts['version']}: {facts['source']}", *_measured(facts["name"]))
    totals = {"facts": len(rows), "version": facts["version"], "source": facts["source"]}
    units = {column.key: column.unit for column in COLUMNS}
    shown = [{**row, "unit": units.get(row["fact"], "text")} for row in rows]
    return Report(
        "engines",
        about,
        {},
        CONVENTION,
        totals,
        rows,
        (Table("", FACTS, shown),),
        notes,
        headline=", ".join(_in_words(facts)),
    )


def _in_words(facts: Mapping[str, Any]) -> Iterator[str]:
    """`vLLM 0.33 takes 92.0% of a device's memory, prompts in chunks of 2,048 to 16,384 tokens`."""
    takes = f" takes {facts['utilization']:.1%} of a device's memory" if "utilization" in facts else ""
    yield f"{facts['title']} {facts['version']}{takes}"
    if facts.get("chunk") is not None:
        chunks = facts["chunk"].values() if isinstance(facts["chunk"], Mapping) else [facts["chunk"]]
        sizes = dict.fromkeys((min(chunks), max(chunks)))
        yield f"prompts in chunks of {' to '.join(f'{size:,}' for size in sizes)} tokens"
    if facts.get("cache_block") is not None:
        yield f"a cache in blocks of {facts['cache_block']:,}"


def _measured(name: str) -> Iterator[str]:
    """The devices on which the engine's kernels were measured."""
    if name in measured_engines():
        yield f"kernels measured on {', '.join(sorted(load_kernels(name)))}"


def fact_rows(facts: Mapping[str, Any], meanings: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """A record for each fact with a meaning; `fuses` has one for each fused part."""
    sources = facts.get("sources", {})
    for key, meaning in meanings.items():
        if key == "fuses":
            for part, how in facts["fuses"].items():
                yield {"fact": f"fuses {part}", "value": how, "meaning": "", "source": ""}
        elif key in facts:
            source = sources.get(key, "")
            yield {"fact": key, "value": as_cell(facts[key]), "meaning": meaning, "source": source}


def as_cell(value: Any) -> Any:
    """A value as a cell of a table: lists and mappings as text."""
    if isinstance(value, Mapping):
        if any(isinstance(places, list) for places in value.values()):
            return "; ".join(f"{key}: {', '.join(places)}" for key, places in value.items())
        # of memories, 8,192 from 70GiB; else what has a name
        return ", ".join(
            f"{part:,} from {key}" if isinstance(part, int) and key[0].isdigit() else f"{part} for {key}"
            for key, part in value.items()
        )
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
