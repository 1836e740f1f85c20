"""Tables and notes of `archcli kvcache`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.graph import StateContent
from archcli.measure.kvcache.cache_size import EXACT, CacheDtypes
from archcli.measure.notes import media_table
from archcli.measure.report import Column, Table, Unit, facts
from archcli.units import binary_bytes, both_bytes, decimal_bytes

Record = dict[str, Any]
AS_KIND = (
    "gqa: the kv heads of the model, else 8, or the largest smaller number that divides the query heads.",
    (
        "mla: the latent of the model, else 4 head_dim and a rotary key of head_dim / 2, as in DeepSeek-V2 "
        "(arXiv:2405.04434 section 2.1.4)."
    ),
)
"""What the table of other kinds of attention assumes."""
ATTENTION_ONLY = "attention only"
"""The variant that a hybrid is compared with: the same model with attention as every mixer."""
REBUILT = "keys and values rebuilt from the latent"
"""What an engine holds that does not cache latents as they are."""
HYBRID = (
    "attention only: a layer with another mixer gets the attention that most layers have, or that of its own "
    "branches."
)
USUAL = {StateContent.KEYS_VALUES.value, StateContent.LATENT.value}
"""Contents that need no table of their own: every attention layer caches one of them."""


def headline_of(totals: Record, context: int, batch_size: int, dtypes: CacheDtypes) -> str:
    """The answer: the tokens that fit where there is a memory, and the bytes of the cache."""
    return "; ".join([*_served(totals, context, batch_size), *_size(totals, context, batch_size, dtypes)])


def _served(totals: Record, context: int, batch_size: int) -> Iterator[str]:
    """`vllm serves 461,584 tokens (or 3 sequences of 131,072) in 78.1 GB beside the weights`."""
    fit = totals.get("fits")
    if fit is None:
        return
    memory = both_bytes(fit["memory_bytes"])
    if fit["weights_bytes"] is None:
        yield f"what fits into {memory} is not known, as the bytes of the weights are not"
        return
    if fit["weights_bytes"] > fit["memory_bytes"]:
        yield f"does not fit: the weights alone are {both_bytes(fit['weights_bytes'])} of {memory}"
        return
    longest, engine = fit.get("served", fit["beside_weights"]), totals["held"]["engine"]
    tokens, sequences = longest["tokens"], longest["sequences"]
    most = "any number of tokens" if tokens is None else f"{tokens:,} tokens"
    of_each = f" in each of {batch_size:,} sequences" if batch_size > 1 else ""
    how_many = "" if sequences is None else f" (or {sequences:,} sequences of {context:,})"
    what = f"{most}{of_each}{how_many}"
    there = f"in {memory} beside the weights"
    yield f"{engine} serves {what} {there}" if "served" in fit and engine != "none" else f"{what} fit {there}"


def _size(totals: Record, context: int, batch_size: int, dtypes: CacheDtypes) -> Iterator[str]:
    """`41.9 GB of cache for 128,000 tokens of one sequence, in bf16`, and the bytes of a token."""
    if not totals["elements"]:
        yield "nothing is cached"
        return
    sequences = "one sequence" if batch_size == 1 else f"each of {batch_size:,} sequences"
    yield (
        f"{decimal_bytes(totals['bytes'])} of cache for {context:,} tokens of {sequences}, "
        f"in {_in_dtypes(totals, dtypes)}"
    )
    yield f"{binary_bytes(totals['bytes_per_token'])} a token ({binary_bytes(totals['bytes'])} in all)"
    if REBUILT in totals["held_by_engines"]:
        yield f"{both_bytes(totals['held_by_engines'][REBUILT]['bytes'])} with {REBUILT}"


def _in_dtypes(totals: Record, dtypes: CacheDtypes) -> str:
    """The dtypes of what is cached: `bf16`, or `bf16 and fp32`."""
    names = dict.fromkeys(dtypes.of(StateContent(name)) for name in totals["by_content"])
    return " and ".join(names) or dtypes.dtype


def tables_of(
    totals: Record, rows: list[Record], context: int, batch_size: int, dtypes: CacheDtypes
) -> Iterator[Table]:
    """The tables of `archcli kvcache`."""
    yield facts(
        f"{'Cache' if totals['state_elements'] else 'KV cache'} of {context:,} tokens",
        ("elements", totals["elements"], "count"),
        (f"bytes in {_in_dtypes(totals, dtypes)}", totals["bytes"], "bytes"),
        ("bytes per token", totals["bytes_per_token"], "bytes"),
        *(_constant(totals) if totals["state_elements"] else ()),
        *(
            [
                ("elements of the source, besides", totals["cross_elements"], "count"),
                ("bytes of the source, besides", totals["cross_bytes"], "bytes"),
                ("bytes in all", totals["all_bytes"], "bytes"),
            ]
            if totals["cross_elements"]
            else ()
        ),
        *(
            [
                (name, totals["fits"][f"{name}_bytes"], "bytes")
                for name in ("weights", "memory")
                if totals["fits"][f"{name}_bytes"] is not None
            ]
            if "fits" in totals
            else ()
        ),
    )
    if "media" in totals:
        yield media_table(totals["media"], totals["prompt_tokens"])
    yield _by_layer(rows, constant=bool(totals["state_elements"]))
    if not {*totals["by_content"]} <= USUAL:
        yield _by_content(rows, dtypes)
    if totals["held_by_engines"]:
        yield _alternatives("What some engines hold", totals, totals["held_by_engines"])
    if totals["as_kind"]:
        yield _alternatives("The same model with other attention", totals, totals["as_kind"])
    if "fits" in totals:
        yield _fit_table(totals["fits"], context, batch_size)


def _constant(totals: Record) -> Iterator[tuple[str, int, Unit]]:
    """The constant part of the cache, and the context from which on the rest is larger."""
    yield "constant bytes", totals["state_bytes"], "bytes"
    if totals["overtakes_at"] is not None:
        yield "tokens whose cache exceeds the constant part", totals["overtakes_at"], "number"


def _by_layer(rows: list[Record], *, constant: bool) -> Table:
    columns = [
        Column("attention", "mixer" if constant else "attention"),
        Column("layers", "layers", "number"),
        Column("window", "window", "number"),
        Column("tokens", "tokens", "number"),
        Column("elements_per_token", "elements per token", "number", minor=True),
        *([Column("constant_elements", "constant elements", "number", minor=True)] if constant else ()),
        Column("bytes", "bytes", "bytes"),
    ]
    return Table("By layer", columns, rows)


def _by_content(rows: list[Record], dtypes: CacheDtypes) -> Table:
    """A table of what each sort of layer caches, where some cache more than keys, values or latents."""
    columns = (
        Column("attention", "mixer"),
        Column("cached", "cached"),
        Column("layers", "layers", "number"),
        Column("of_layer", "elements of a layer", "number", minor=True),
        Column("dtype", "dtype"),
        Column("bytes", "bytes", "bytes"),
    )
    records = [
        {
            **{key: row[key] for key in ("attention", "layers")},
            "cached": name,
            # the layers of a row cache alike
            "of_layer": elements // row["layers"],
            "dtype": dtypes.of(StateContent(name)),
            "bytes": dtypes.bytes_of({StateContent(name): elements}),
        }
        for row in rows
        for name, elements in row["contents"].items()
    ]
    return Table("What is cached", columns, records)


def state_notes(totals: Record, dtypes: CacheDtypes) -> Iterator[str]:
    """Notes on the numbers that states are kept in."""
    if not totals["by_content"].get(StateContent.RECURRENT):
        return
    if dtypes.is_packed and dtypes.state_dtype is None:
        yield f"{dtypes.dtype} is for keys and values alone: llama.cpp keeps states in {EXACT}."
    if dtypes.of(StateContent.RECURRENT) != EXACT:
        yield f"transformers keeps recurrent states in {EXACT}: --state-dtype {EXACT}."


def notes_of(totals: Record) -> Iterator[str]:
    """Notes on the assumptions and limits of the figures."""
    if not totals["elements"]:
        yield "nothing is cached: no layer of this model generates tokens."
        return
    if not totals["kv_elements"]:
        yield "the state is constant, whatever the length."
        return
    if totals["as_kind"]:
        yield from AS_KIND
    if ATTENTION_ONLY in totals["as_kind"]:
        yield HYBRID
    fit = totals.get("fits")
    if fit and fit["cache_alone"]["tokens"] is None:
        yield "every layer has a window: beyond it the cache does not grow, and the context has no bound."
    if fit and "pool" in fit:
        pool = fit["pool"]
        tokens, sequences = f"{pool['printed_tokens']:,} tokens", f"{pool['concurrency']:.2f} sequences"
        blocks = f"{pool['blocks']:,} blocks of {binary_bytes(pool['block_bytes'])} for all layers"
        yield f"cache alone: {blocks}; as engines print it {tokens}, {sequences} of {pool['context']:,}."
    if fit and "served" in fit:
        served = fit["served"]
        yield (
            "served: what the weights, the largest pass of one sequence "
            f"({binary_bytes(served['temporaries_bytes'])} at this context) and memory beyond the model "
            f"({binary_bytes(served['beyond_bytes'])}, such as the CUDA context) leave for the cache."
        )
    if fit and (fit["weights_bytes"] or 0) > fit["memory_bytes"]:
        yield "the weights alone are larger than the memory."


def _alternatives(title: str, totals: Record, others: dict[str, Record]) -> Table:
    records = [
        {"what": name, **held, "ratio": held["bytes"] / totals["bytes"]} for name, held in others.items()
    ]
    columns = (
        Column("what", ""),
        Column("bytes_per_token", "per token", "bytes"),
        Column("bytes", "total", "bytes"),
        Column("ratio", "vs this model", "ratio"),
    )
    return Table(title, columns, records)


def _fit_table(fit: Record, context: int, batch_size: int) -> Table:
    kinds = [key for key in ("beside_weights", "served", "cache_alone") if key in fit]
    titles = {"beside_weights": "beside the weights", "cache_alone": "cache alone"}
    columns = (Column("what", ""), *(Column(kind, titles.get(kind, kind), "number") for kind in kinds))
    tokens = "tokens" if batch_size == 1 else f"tokens in each of {batch_size:,} sequences"
    names = {"tokens": tokens, "sequences": f"sequences of {context:,}"}
    records: list[Record] = [
        {"what": label, **{kind: fit[kind][name] for kind in kinds}} for name, label in names.items()
    ]
    return Table("What fits", columns, records)
