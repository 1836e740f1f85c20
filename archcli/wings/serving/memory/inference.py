"""The memory of a prefill or of decoding: weights, cache, and temporaries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from archcli.arith import Number, Shape, ceil_div, is_whole
from archcli.graph import Row, State, StateKind
from archcli.measure.kvcache.engine import ANY_ENGINE, InferenceEngine
from archcli.measure.passes import cache_pass, shape_pass
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.models.model import inferring
from archcli.modules.spec.degrees import Degrees
from archcli.modules.spec.request import Request
from archcli.modules.spec.trace import ADAPTERS
from archcli.modules.stored.formats import stored_format
from archcli.wings.serving.memory.reserved.reserves import USUAL, Reserves, reserves_of
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.shares import StoredBits, stored_weights
from archcli.wings.serving.memory.traced import (
    MemoryMoment,
    TracedModel,
    TracedPass,
    cached_before,
    peak_bytes,
    sizes_of,
    trace_memory,
)

IN_RAM = {
    "token embedding": "embedding",
    "position embedding": "position_embedding",
    "token types": "token_type_embedding",
    "per-layer embedding": "per_layer_embedding",
}
"""The groups of rows of parts that an engine leaves in RAM."""


WINDOW = StateKind.WINDOW


class InferencePass(NamedTuple):
    """A traced pass without a backward: its moments, and the weights beside it."""

    traced: TracedPass
    weights: Number
    moments: tuple[MemoryMoment, ...]


def inference_pass(
    model: Model, settings: MemorySettings, known: TracedModel | None = None, held: Number | None = None
) -> InferencePass:
    """Trace a decoded token, or a prefill: of several chunks the one with the highest peak.

    The caller owns the cache: the one before the pass lives until the longer one is complete. `known` keeps
    the traced passes of the model; `held` are the bytes of weights where these are not the model's own.
    """
    known, model = known or TracedModel(model), inferring(model)
    weights = _weights(model, settings, known) if held is None else held
    adapters = _of_adapters(model, settings, known)
    passes = [_passed(traced, settings, weights, adapters) for traced in _traced(model, settings, known)]
    return max(passes, key=lambda passed: peak_bytes(passed.moments))


def _weights(model: Model, settings: MemorySettings, known: TracedModel) -> Number:
    def count() -> Number:
        engine = settings.engine or ANY_ENGINE
        return weight_bytes(model, _laid_out(model, weight_rows(model, known), engine), settings.dtype)

    return known.once(("weights", settings.dtype, settings.engine), count)


def _of_adapters(model: Model, settings: MemorySettings, known: TracedModel) -> int:
    """Bytes of several adapters, which are a part of the weights; 0 of one."""
    engine = settings.engine or ANY_ENGINE
    if not engine.adapters:
        return 0
    rows = _loaded(weight_rows(model, known), engine)
    return weight_bytes(model, [row for row in rows if row.group == ADAPTERS], settings.dtype)


def stored_bits(known: TracedModel, dtype: str, engine: InferenceEngine = ANY_ENGINE) -> StoredBits:
    """The weights as an engine lays them out, with the bits of one layer's.

    They are the same whatever lies in RAM and on which stage: a search asks often.
    """

    def bits() -> StoredBits:
        model = known.inferring
        return tuple(stored_weights(model, _laid_out(model, weight_rows(model, known), engine), dtype))

    return known.once(("stored bits", dtype, engine), bits)


def _loaded(rows: Sequence[Row], engine: InferenceEngine) -> Sequence[Row]:
    """The rows; those of adapters store the weights of all that the engine has loaded."""
    n = engine.adapters
    return [replace(row, stored=n * row.copies) if n and row.group == ADAPTERS else row for row in rows]


def _laid_out(model: Model, rows: Sequence[Row], engine: InferenceEngine) -> Sequence[Row]:
    """The rows with all adapters, and the matrices of experts in mxfp4 as large as the kernels need them."""
    rows = _loaded(rows, engine)
    multiples = engine.mxfp4_experts
    if not multiples or model.quantization is None:
        return rows
    packings = model.quantization.packings(LayerIndex(model))
    mxfp4 = stored_format("mxfp4").packing

    def padded(row: Row) -> Row:
        if row.experts is None or all(packing != mxfp4 for packing, _ in packings(row)):
            return row
        return replace(row, weights=_padded(row.weights, model.d_model, multiples))

    return [padded(row) for row in rows]


def _padded(weights: Mapping[str, Shape], d_model: Number, multiples: tuple[int, ...]) -> dict[str, Shape]:
    """The weights with a matrix of [experts' width, d_model], or its transpose, at whole multiples."""
    of_model, of_expert = multiples
    outputs, inputs = weights["weight"]
    by = (of_expert, of_model) if inputs == d_model else (of_model, of_expert)
    matrix = ceil_div(outputs, by[0]) * by[0], ceil_div(inputs, by[1]) * by[1]
    return {**weights, "weight": matrix}


def weight_rows(model: Model, known: TracedModel) -> tuple[Row, ...]:
    """The rows of one token, for what they say of weights."""
    return known.passed("rows", lambda: shape_pass(model).rows)


def _traced(model: Model, settings: MemorySettings, known: TracedModel) -> list[TracedPass]:
    """The passes of these settings."""
    execution = settings.execution()
    reserves = _reserves(settings)
    if reserves.adapter_slots and settings.engine and settings.engine.adapters:
        model = model.replace(lora=None)  # an engine's kernels add to what a projection writes
    if reserves.width is not None:
        execution = execution._replace(width=reserves.width)

    def trace(request: Request) -> TracedPass:
        key = *sizes_of(request), execution, model.lora is None
        return known.passed(key, lambda: trace_memory(model, request, execution))

    requests = settings.requests(model)
    first = requests[0]
    if not (settings.served and settings.phase == "prefill" and is_whole(first.past)):
        return [trace(request) for request in requests]
    key = "spans", *sizes_of(replace(first, past=None)), execution, model.lora is None
    spans = known.passed(key, lambda: PassSpans(lambda past: trace(replace(first, past=past))))
    whole = spans.at(first.past)
    rest = [request for request in requests[1:] if not spans.alike(first.past, request.past or 0)]
    return [whole, *map(trace, rest)]


class PassSpans:
    """Chunks of a prompt behind ever more cached tokens, of which as few are traced as can be.

    No moment takes less where more tokens are cached. So where the chunks behind 4096 and 130560 tokens have
    equal moments, those between have them, too, and a remainder of fewer tokens takes no more.
    """

    def __init__(self, trace: Callable[[int], TracedPass]) -> None:
        """`trace` traces the chunk behind so many tokens."""
        self._trace = trace
        self._ends: dict[int, tuple[Hashable, TracedPass]] = {}

    def at(self, past: int) -> TracedPass:
        """The chunk behind so many tokens, or one that has the same moments."""
        alike = self._between(past)
        if alike is None:
            traced = self._trace(past)
            windows = (state.tokens for row in traced.rows for state in row.states if state.kind is WINDOW)
            sizes = (moment.temporaries for moment in traced.ledger.moments)
            alike = self._ends[past] = (*sizes, *windows), traced
        return alike[1]

    def alike(self, past: int, more: int) -> bool:
        """Whether chunks behind `past` and `more` tokens are known to have the same moments."""
        fewer, many = self._between(past), self._between(more)
        return fewer is not None and many is not None and fewer[0] == many[0]

    def _between(self, past: int) -> tuple[Hashable, TracedPass] | None:
        low = max((end for end in self._ends if end <= past), default=None)
        high = min((end for end in self._ends if end >= past), default=None)
        if low is None or high is None or self._ends[low][0] != self._ends[high][0]:
            return None
        return self._ends[low]


def _passed(traced: TracedPass, settings: MemorySettings, weights: Number, adapters: int) -> InferencePass:
    """One pass with its own cache."""
    cache = cached_before(traced)
    moments = tuple(
        MemoryMoment(
            settings.phase,
            moment.path,
            weights - adapters,
            temporaries=moment.temporaries,
            cache=cache + moment.cache,
            adapters=adapters,
        )
        for moment in traced.ledger.moments
    )
    return InferencePass(traced, weights, moments)


def serving(
    model: Model, settings: MemorySettings, known: TracedModel | None = None, held: Number | None = None
) -> InferencePass:
    """Trace what an engine holds: weights, the cache of all sequences once, and the pass.

    The cache counts once, as engines allocate it once and write into it. The pass is a decoded token of all
    sequences, or the prefill of one sequence, in chunks of `chunk` tokens: they come one after the other.
    """
    known, model = known or TracedModel(model), inferring(model)
    weights = _weights(model, settings, known) if held is None else held
    if held is None:
        weights -= in_ram_bytes(model, settings, known)
    adapters = _of_adapters(model, settings, known)
    weights -= adapters
    served = known.passed(("served", settings), lambda: _without_weights(model, settings, known))
    moments = tuple([moment._replace(weights=weights, adapters=adapters) for moment in served.moments])
    return InferencePass(served.traced, weights, moments)


def _without_weights(model: Model, settings: MemorySettings, known: TracedModel) -> InferencePass:
    """The pass with the highest peak, without the weights: it is the same in all of their formats."""
    decodes = settings.phase == "decode"
    traced = _traced(model, settings if decodes else _profiled(model, settings), known)
    cache = _allocated(model, settings, traced[-1], known)
    passes, logits = [], _sampled_bytes(model, settings)
    for run in traced:
        in_graph, phase = _in_graph(run, model, settings), run.request.phase
        moments = [
            MemoryMoment(
                phase, moment.path, temporaries=moment.temporaries + in_graph(moment.path), cache=cache
            )
            for moment in run.ledger.moments
        ]
        if logits:
            moments.append(MemoryMoment(phase, "sampler", temporaries=logits, cache=cache))
        passes.append(InferencePass(run, 0, tuple(moments)))
    return max(passes, key=lambda passed: peak_bytes(passed.moments))


def _profiled(model: Model, settings: MemorySettings) -> MemorySettings:
    """The prefill of one sequence; of as many as a chunk has room for where the engine runs that at first."""
    alone, tokens = settings.alone(), settings.tokens(model)
    if not _reserves(settings).sampler or not is_whole(tokens) or model.source_length(tokens) is not None:
        return alone
    return replace(alone, batch_size=max(1, (settings.chunk or 0) // tokens))


def _sampled_bytes(model: Model, settings: MemorySettings) -> int:
    """Bytes of the sampler that an engine runs at first, on the rank that has the head."""
    engine, of_logit = settings.engine or ANY_ENGINE, _reserves(settings).sampler
    if settings.phase == "decode" or of_logit is None or model.output_head is None or not settings.chunk:
        return 0
    # each rank has the logits of all words
    vocab_size = model.vocab_size * (model.degrees or Degrees()).tp
    return int(min(engine.max_sequences or 1, settings.chunk) * vocab_size * of_logit)


def _reserves(settings: MemorySettings) -> Reserves:
    return reserves_of(settings.engine) if settings.served and settings.engine else USUAL


def _in_graph(run: TracedPass, model: Model, settings: MemorySettings) -> Callable[[str], Number]:
    """What the engine's graph holds beside the tensors of a pass, by the path of an operation."""
    engine = settings.engine or ANY_ENGINE
    if not reserves_of(engine).copies:
        return lambda path: 0  # noqa: ARG005
    from archcli.wings.serving.memory.reserved.graph import graph_bytes  # of such engines alone

    context, sequences = settings.context(model), settings.batch_size
    return graph_bytes(run, engine, context, sequences, settings.cache_dtype)


def in_ram_bytes(
    model: Model, settings: MemorySettings, known: TracedModel | None = None, *, has_head: bool = True
) -> int:
    """Bytes of the tables that the engine leaves in RAM.

    A tied one is on the device as well where that `has_head`.
    """
    engine = settings.engine or ANY_ENGINE
    groups = {IN_RAM[part] for part in engine.in_ram}
    if not groups:
        return 0
    known = known or TracedModel(model)
    key = "in RAM", settings.dtype, engine.in_ram, has_head
    return known.once(key, lambda: _tables_bytes(model, settings.dtype, groups, known, has_head=has_head))


def _tables_bytes(model: Model, dtype: str, groups: set[str], known: TracedModel, *, has_head: bool) -> int:
    rows = weight_rows(model, known)
    if has_head and not any(row.weights for row in rows if row.group == "lm_head"):
        groups -= {"embedding"}
    return weight_bytes(model, [row for row in rows if row.group in groups], dtype)


def tables_params(known: TracedModel) -> int:
    """Parameters of the tables that an engine may leave in RAM."""
    rows = weight_rows(known.model, known)
    return sum(int(row.params) for row in rows if row.group in IN_RAM.values())


def _allocated(model: Model, settings: MemorySettings, last: TracedPass, known: TracedModel) -> Number:
    """Bytes of the cache of all sequences, as the engine holds their tokens, and those of a source."""
    from archcli.measure.kvcache.cache_size import (  # of serving alone
        ALL,
        CacheDtypes,
        CacheSize,
        state_contents,
    )
    from archcli.measure.kvcache.held import pool_of

    # after the last chunk all tokens of one sequence are cached; one more is decoded
    tokens = settings.past + settings.tokens(model) + settings.new + (settings.phase == "decode")
    engine, source = settings.engine or ANY_ENGINE, settings.source(model)
    dtypes = CacheDtypes(settings.cache_dtype or settings.dtype)
    if reserves_of(engine).pages is not None and is_whole(tokens) and is_whole(settings.batch_size):
        pool = pool_of(known.passed("size", lambda: CacheSize(model)), dtypes, engine)
        if pool is not None:
            of_pages: int = pool.bytes_of(tokens, settings.batch_size, settings.chunk)
            return of_pages
    dtypes = dtypes.in_engine(engine, settings.dtype)

    def held(state: State) -> Number:
        return engine.holds(state, tokens)

    has_source, request = model.source_length(tokens) is not None, last.request
    if not has_source and request.batch_size == 1 and (request.past or 0) + request.seq_len == tokens:
        contents = state_contents(last.rows, ALL, held)
    elif source is None and is_whole(tokens):
        contents = known.passed("size", lambda: CacheSize(model)).contents(tokens, 1, ALL, held)
    else:
        # the last of several passes finds what was made of a source in the cache
        filling, key = Request("prefill", 1, tokens, source_len=source), ("cached", tokens, source)
        contents = state_contents(known.passed(key, lambda: cache_pass(model, filling).rows), ALL, held)
    return dtypes.bytes_of({content: n * settings.batch_size for content, n in contents.items()})
