"""The KV cache: what it holds at a length, what engines hold instead, other kinds of attention beside it, and how much fits.

Every figure is read off the rows of a prefill; there is no second formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from archcli.arith import to_bytes
from archcli.graph import State, StateKind
from archcli.measure.kvcache.variants import expanded, to_gqa, to_mha, to_mla, to_mqa
from archcli.measure.notes import context_notes, source_notes
from archcli.measure.passes import forward_pass, prefill_pass
from archcli.measure.report import Column, Report, Table, facts
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules import Mixer, MixerFacts, Model, find, substitute
from archcli.modules.layers import LayerIndex
from archcli.modules.mtp import MTP

CONVENTION = (
    "Elements the architecture needs: kv heads x min(tokens, window) x (key + value width) per layer; "
    "for MLA the latent and its rotary key."
)
DEFAULT_CONTEXT = 2048
AS_KIND = (
    "gqa keeps the kv heads it has, else takes 8, or the most below that divide the query heads.",
    "mla keeps its latent, else takes 4 head_dim and a rotary key of head_dim / 2, as DeepSeek-V2 (arXiv:2405.04434 section 2.1.4).",
)
"""What the table of other kinds of attention assumes."""

Record = dict[str, Any]


def count_kv_cache(
    model: Model,
    context: int | None = None,
    batch_size: int = 1,
    dtype: str = "bf16",
    memory_bytes: int | None = None,
    source_len: int | None = None,
) -> Report:
    """What `archcli kvcache` reports; `context` left out is max_seq_len, or 2048 where the model names none."""
    context = context or model.max_seq_len or DEFAULT_CONTEXT
    counted = prefill_pass(model, batch_size, context, source_len=source_len)
    totals: Record = {
        "cross_elements": counted.cross_cached(),
        **_held(model, context, batch_size, dtype),
        "kv_elements": counted.kv_elements(),
        "state_elements": counted.state_elements(),
        "held_by_engines": {
            name: _held(changed, context, batch_size, dtype) for name, changed in _engines(model)
        },
        "as_kind": {name: _held(changed, context, batch_size, dtype) for name, changed in _kinds(model)},
    }
    if memory_bytes is not None:
        totals["fits"] = fits(model, memory_bytes, context, batch_size, dtype)
    rows = _by_layer(model, context, batch_size, dtype)
    return Report(
        command="kvcache",
        model={"name": model.name, "source": model.source},
        inputs={
            "context": context,
            "batch_size": batch_size,
            "dtype": dtype,
            "memory_bytes": memory_bytes,
            "source_len": source_len,
        },
        convention=CONVENTION,
        totals=totals,
        rows=rows,
        tables=tuple(_tables(totals, rows, context, batch_size, dtype)),
        notes=(*context_notes(model, context), *source_notes(model, source_len), *_notes(totals)),
    )


def kv_elements(model: Model, context: int, batch_size: int = 1) -> int:
    """Elements the cache holds after `context` tokens."""
    held: int = prefill_pass(model, batch_size, context).cached()
    return held


def _growth(model: Model) -> int:
    """Elements a token adds below every window; a constant state does not grow."""
    added: int = prefill_pass(model, 1, 1).kv_elements()
    return added


def _held(model: Model, context: int, batch_size: int, dtype: str) -> Record:
    """What is cached at the context, and how much each token adds below every window."""
    elements, growth = kv_elements(model, context, batch_size), _growth(model)
    return {
        "elements": elements,
        "bytes": to_bytes(elements, dtype),
        "elements_per_token": growth,
        "bytes_per_token": to_bytes(growth, dtype),
    }


def fits(model: Model, memory_bytes: int, context: int, batch_size: int, dtype: str) -> Record:
    """How many tokens (of `batch_size` sequences) and how many sequences (of `context` tokens) fit into the memory.

    Once with the weights in it, quantized as the model says and else at the same dtype, once for the cache alone. No
    bound is None: every layer has a window.
    """
    weights = weight_bytes(model, forward_pass(model, 1, 1).rows, dtype)
    one = to_bytes(kv_elements(model, context), dtype)

    def both(budget: int) -> Record:
        return {
            "tokens": _most_tokens(model, budget, batch_size, dtype),
            "sequences": max(budget, 0) // one if one else None,
        }

    return {
        "memory_bytes": memory_bytes,
        "weights_bytes": weights,
        "beside_weights": both(memory_bytes - weights),
        "cache_alone": both(memory_bytes),
    }


def _most_tokens(model: Model, budget: int, batch_size: int, dtype: str) -> int | None:
    """The longest context whose cache is within the budget: doubling, then halving the interval."""

    def held(tokens: int) -> int:
        return kv_elements(model, tokens, batch_size)

    def fit(tokens: int) -> bool:
        within: bool = to_bytes(held(tokens), dtype) <= budget
        return within

    low, high = 0, 1
    while fit(high):
        low, high = high, 2 * high
        if held(high) == held(low):
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low


def _cached_attention(model: Model) -> dict[str, MixerFacts]:
    """Attention that caches keys and values of all it sees, by full path: no encoder's, none of training, no constant state."""
    facts = {
        path: mixer.facts(model.d_model)
        for path, mixer in find(model, Mixer)
        if not path.startswith(f"{MTP}.")
    }
    return {path: mixer for path, mixer in facts.items() if mixer.causal and mixer.has_scores}


def _engines(model: Model) -> Iterator[tuple[str, Model]]:
    """What some engines keep instead, by name, where it differs from what is needed."""
    cached = _cached_attention(model)
    bounds = {
        f"{path}.{field}": None
        for path, mixer in cached.items()
        for field in ("window", "chunk")
        if getattr(mixer, field) is not None
    }
    if bounds:
        yield "every layer at full length", substitute(model, bounds)
    latent = {path: expanded(mixer) for path, mixer in cached.items() if mixer.is_latent}
    if latent:
        yield "keys and values rebuilt from the latent", substitute(model, latent)


def _kinds(model: Model) -> Iterator[tuple[str, Model]]:
    """The same model with all its attention of one kind; what is of that kind, or has no heads, stays as it is."""
    heads = {path: mixer for path, mixer in _cached_attention(model).items() if mixer.content_dim is not None}
    kinds: dict[str, Callable[[MixerFacts], Mixer]] = {
        "mha": to_mha,
        "gqa": to_gqa,
        "mqa": to_mqa,
        "mla": lambda mixer: to_mla(mixer, model.norm),
    }
    for name, convert in kinds.items() if heads else ():
        changed = {path: convert(mixer) for path, mixer in heads.items() if mixer.kind != name}
        yield name, substitute(model, changed)


def _by_layer(model: Model, context: int, batch_size: int, dtype: str) -> list[Record]:
    """A record for each sort of layer: its attention, what it keeps, and how many layers are of that sort."""
    rows = prefill_pass(model, batch_size, context).rows
    sorts: dict[Any, Record] = {}
    for layer in LayerIndex(model):
        of_layer = [state for row in rows if row.path.startswith(f"{layer.path}.") for state in row.states]
        states = [state for state in of_layer if state.kind is not StateKind.SOURCE]
        if not states:
            continue
        mixer = layer.block.facts()
        bound = mixer.window if mixer.chunk is None else mixer.chunk
        sort = {"attention": mixer.kind, "window": bound, **_kept(states, batch_size)}
        first = {"first": layer.path, "layers": 0, **sort, "elements": 0}
        entry = sorts.setdefault(tuple(sort.values()), first)
        entry["layers"] += layer.times
        entry["elements"] += layer.times * sum(state.elements for state in states)
    return [{**entry, "bytes": to_bytes(entry["elements"], dtype)} for entry in sorts.values()]


def _kept(states: list[State], batch_size: int) -> Record:
    """For how many tokens a layer keeps entries, and elements for each of them; to a constant state no token adds."""
    entries = [state for state in states if state.tokens is not None]
    return {
        "tokens": max((state.tokens for state in entries), default=None),
        "elements_per_token": sum(state.elements // (batch_size * state.tokens) for state in entries),
    }


def _tables(totals: Record, rows: list[Record], context: int, batch_size: int, dtype: str) -> Iterator[Table]:
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
        yield _beside("What some engines hold", totals, totals["held_by_engines"])
    if totals["as_kind"]:
        yield _beside("The same model with other attention", totals, totals["as_kind"])
    if "fits" in totals:
        yield _fit(totals["fits"], context, batch_size)


def _notes(totals: Record) -> Iterator[str]:
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


def _beside(title: str, totals: Record, others: dict[str, Record]) -> Table:
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


def _fit(fit: Record, context: int, batch_size: int) -> Table:
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
