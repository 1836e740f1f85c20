"""Tables and notes of `archcli kvcache`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.measure.report import Column, Table, facts

Record = dict[str, Any]
AS_KIND = (
    "gqa keeps the kv heads it has, else takes 8, or the most below that divide the query heads.",
    (
        "mla keeps its latent, else takes 4 head_dim and a rotary key of head_dim / 2, as DeepSeek-V2 "
        "(arXiv:2405.04434 section 2.1.4)."
    ),
)
"""What the table of other kinds of attention assumes."""


def tables_of(
    totals: Record, rows: list[Record], context: int, batch_size: int, dtype: str
) -> Iterator[Table]:
    """The tables of `archcli kvcache`."""
    yield facts(
        f"KV cache of {context:,} tokens",
        ("elements", totals["elements"], "count"),
        (f"bytes in {dtype}", totals["bytes"], "bytes"),
        ("bytes per token", totals["bytes_per_token"], "bytes"),
        *(
            [("elements of the source, apart", totals["cross_elements"], "count")]
            if totals["cross_elements"]
            else ()
        ),
        *(
            [
                ("weights", totals["fits"]["weights_bytes"], "bytes"),
                ("memory", totals["fits"]["memory_bytes"], "bytes"),
            ]
            if "fits" in totals
            else ()
        ),
    )
    columns = (
        Column("attention", "attention"),
        Column("layers", "layers", "number"),
        Column("window", "window", "number"),
        Column("tokens", "tokens", "number"),
        Column("elements_per_token", "elements per token", "number"),
        Column("bytes", "bytes", "bytes"),
    )
    yield Table("By layer", columns, rows)
    if totals["held_by_engines"]:
        yield _alternatives("What some engines hold", totals, totals["held_by_engines"])
    if totals["as_kind"]:
        yield _alternatives("The same model with other attention", totals, totals["as_kind"])
    if "fits" in totals:
        yield _fit_table(totals["fits"], context, batch_size)


def notes_of(totals: Record) -> Iterator[str]:
    """Notes on the assumptions and limits of the figures."""
    if not totals["elements"]:
        yield "nothing is cached: no layer of this model generates."
        return
    if not totals["kv_elements"]:
        yield "the state is constant, whatever the length."
        return
    if totals["as_kind"]:
        yield from AS_KIND
    fit = totals.get("fits")
    if fit and fit["cache_alone"]["tokens"] is None:
        yield "every layer has a window: beyond it the cache does not grow, and tokens have no bound."
    if fit and fit["weights_bytes"] > fit["memory_bytes"]:
        yield "the weights alone are larger than the memory."


def _alternatives(title: str, totals: Record, others: dict[str, Record]) -> Table:
    records = [
        {"what": name, **held, "ratio": held["bytes"] / totals["bytes"]} for name, held in others.items()
    ]
    columns = (
        Column("what", ""),
        Column("bytes_per_token", "per token", "bytes"),
        Column("bytes", "in all", "bytes"),
        Column("ratio", "of its own", "ratio"),
    )
    return Table(title, columns, records)


def _fit_table(fit: Record, context: int, batch_size: int) -> Table:
    columns = (
        Column("what", ""),
        Column("beside_weights", "beside the weights", "number"),
        Column("cache_alone", "cache alone", "number"),
    )
    records = [
        {
            "what": "tokens" if batch_size == 1 else f"tokens in each of {batch_size:,} sequences",
            **{key: fit[key]["tokens"] for key in ("beside_weights", "cache_alone")},
        },
        {
            "what": f"sequences of {context:,}",
            **{key: fit[key]["sequences"] for key in ("beside_weights", "cache_alone")},
        },
    ]
    return Table("What fits", columns, records)
