"""Facets: the columns by which architectures are set side by side, each a key, a heading, a unit and where its value is read.

A facet of a layer has a value for each sort of layer. Words are told with how many layers they are of; of figures the one of most layers
stands in the column, and where there are others, all of them in `mixed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from archcli.arith import Number, to_bytes
from archcli.measure.report import Column, Unit
from archcli.measure.survey.layers import Layer, Shape, main_of, shape_of, tallied, told
from archcli.modules import FeedForward, MixtureOfExperts, Model, Parallel
from archcli.modules.block import MIXING
from archcli.modules.stack import stacks
from archcli.ops import Linear
from archcli.wording import as_int

DTYPE = "bf16"
"""In which the cache is told per token."""

WORDS: frozenset[Unit] = frozenset({"text", "flag", "date"})

CONVENTION = (
    "heads/d is n_heads x head_dim / d_model; head_dim is a query's (MLA: both its parts). d_ff is one network's: a dense layer's or one "
    "expert's; active d_ff what a token meets, top_k experts and the shared one. n_layers is the deepest stack's. Where layers differ, "
    "words stand with how many layers they are of, and figures are those of most layers. Norms: pre, before a sublayer; after, behind it "
    "and inside the residual; sandwich, both; post, on the stream."
)

Record = dict[str, Any]


class Facet(NamedTuple):
    """One column: its key, heading, unit, the section it is shown in (none: in data alone), and its value of a model or of a layer."""

    key: str
    title: str
    unit: Unit
    section: str
    of_model: Callable[[Shape], Any] | None = None
    of_layer: Callable[[Shape, Layer], Any] | None = None

    @property
    def is_figure(self) -> bool:
        """Whether it is a number, of which there are medians and ratios."""
        return self.unit not in WORDS

    @property
    def column(self) -> Column:
        """How a table shows it."""
        return Column(self.key, self.title, self.unit)


def described(name: str, model: Model) -> Record:
    """Every facet of a model by its key, exact; under `mixed`, for figures that differ by layer, [[value, layers], …]."""
    shape = shape_of(model)
    record: Record = {"name": name}
    mixed: dict[str, list[list[Any]]] = {}
    for facet in FACETS.values():
        if facet.of_layer is None:
            record[facet.key] = None if facet.of_model is None else facet.of_model(shape)
            continue
        tally = tallied((facet.of_layer(shape, layer), layer.times) for layer in shape.layers)
        record[facet.key] = told(tally) if facet.unit == "text" else main_of(tally)
        if len(tally) > 1 and facet.unit != "text":
            mixed[facet.key] = [[value, times] for value, times in tally.items()]
    return {**record, "mixed": mixed}


def _released(shape: Shape) -> str | None:
    released = getattr(shape.model, "released", None)
    return None if released is None else str(released)


def _year(shape: Shape) -> int | None:
    released = _released(shape)
    return int(released[:4]) if released else None


def _depths(shape: Shape) -> dict[str, Number]:
    """Layers of each stack, by its name."""
    kind = getattr(shape.model, "kind", "decoder")
    return {
        stem[:-1] or kind: sum(group.n_layers for group in stack.groups)
        for stem, stack in stacks(shape.model)
    }


def _n_layers(shape: Shape) -> Number:
    return max(_depths(shape).values())


def _active(shape: Shape) -> Number:
    return sum(row.active_params for row in shape.counted.rows)


def _placement(_: Shape, layer: Layer) -> str:
    """Where the norms are, going by the order of the rows: before a sublayer, after it but inside the residual, or on the stream."""
    order = layer.order
    places = [("pre", order.startswith("N")), ("after", "SN+" in order), ("post", order.endswith("+N"))]
    found = [place for place, there in places if there]
    return "sandwich" if found == ["pre", "after"] else " + ".join(found) or "none"


def _position(_: Shape, layer: Layer) -> str:
    """What is added to the embeddings, what the attention does, and what is added to its scores."""
    kinds = [
        getattr(part, "kind", None) for part in (layer.position, layer.facts.position, layer.stack.score_bias)
    ]
    return " + ".join(kind for kind in kinds if kind not in {None, "none"}) or "none"


def _theta(_: Shape, layer: Layer) -> float | None:
    theta: float | None = getattr(layer.facts.position, "theta", None)
    return theta if theta is None else as_int(theta)


def _scaling(_: Shape, layer: Layer) -> str:
    return getattr(getattr(layer.facts.position, "scaling", None), "kind", "none")


def _attention(_: Shape, layer: Layer) -> str | None:
    """The kind of mixer, and whether the source is attended to beside it; None where a layer mixes nothing."""
    crosses = getattr(layer.block, "cross_attention", None) is not None
    return " + ".join(kind for kind in (layer.facts.kind, "cross" if crosses else None) if kind) or None


def _head_ratio(shape: Shape, layer: Layer) -> float | None:
    heads, width = layer.facts.n_heads, layer.facts.head_dim
    return None if heads is None or width is None else heads * width / shape.model.d_model


def _stability(shape: Shape, layer: Layer) -> str | None:
    """What keeps scores and logits from growing: norms of queries and keys, soft caps, clips, sinks."""
    logits = ("logit softcap",) if getattr(getattr(shape.model, "head", None), "softcap", None) else ()
    return " + ".join((*layer.facts.stability, *logits)) or None


def _bias(_: Shape, layer: Layer) -> str:
    """In which parts of the layer linear maps have a bias."""
    parts = [part for part in (*MIXING, "ffn") if any(_is_biased(row) for row in layer.below(part))]
    return " + ".join(parts) or "none"


def _is_biased(row: Any) -> bool:
    return isinstance(row.op, Linear) and "bias" in row.weights


def _network(layer: Layer) -> FeedForward | None:
    """The network of a dense layer, or that of one expert."""
    ffn = layer.block.ffn
    return ffn.expert if isinstance(ffn, MixtureOfExperts) else ffn


def _d_ff(_: Shape, layer: Layer) -> Number | None:
    return getattr(_network(layer), "d_ff", None)


def _d_ff_ratio(shape: Shape, layer: Layer) -> float | None:
    d_ff = _d_ff(shape, layer)
    return d_ff and d_ff / shape.model.d_model


def _active_d_ff(_: Shape, layer: Layer) -> Number | None:
    """The width that a token meets: what the rows that come down to d_model read, of k experts k times."""
    downs = [row for row in layer.below("ffn") if row.path.endswith("down_proj")]
    return sum(row.inputs[0][-1] * (row.experts.top_k if row.experts else 1) for row in downs) or None


def _active_d_ff_ratio(shape: Shape, layer: Layer) -> float | None:
    width = _active_d_ff(shape, layer)
    return width and width / shape.model.d_model


def _moe(field: str) -> Callable[[Shape, Layer], Any]:
    return lambda _, layer: getattr(layer.block.ffn, field, None)


def _expert_ratio(_: Shape, layer: Layer) -> float | None:
    ffn = layer.block.ffn
    return ffn.n_experts / ffn.top_k if isinstance(ffn, MixtureOfExperts) else None


def _active_share(shape: Shape) -> float | None:
    """The share of its parameters that a token meets, of a model with experts."""
    routed = any(row.experts for row in shape.counted.rows)
    return _active(shape) / shape.counted.params() if routed else None


SECTIONS = ("Size", "Shape", "Norms and wiring", "Feed-forward and position", "Attention", "Heads", "Experts")

_ALL = (
    Facet("series", "series", "text", "", lambda shape: getattr(shape.model, "series", None)),
    Facet("released", "released", "date", "Size", _released),
    Facet("year", "year", "date", "", _year),
    Facet("params", "params", "count", "Size", lambda shape: shape.counted.params()),
    Facet("active_params", "active", "count", "Size", _active),
    Facet("vocab_size", "vocabulary", "number", "Size", lambda shape: shape.model.vocab_size),
    Facet("tied", "tied", "flag", "Size", lambda shape: shape.model.embedding.tied),
    Facet("max_seq_len", "context", "number", "Size", lambda shape: shape.model.max_seq_len),
    Facet(
        "stacks",
        "layers",
        "text",
        "",
        lambda shape: ", ".join(f"{name} {depth}" for name, depth in _depths(shape).items()),
    ),
    Facet("n_layers", "layers", "number", "Shape", _n_layers),
    Facet("d_model", "d_model", "number", "Shape", lambda shape: shape.model.d_model),
    Facet("aspect_ratio", "d/layers", "ratio", "Shape", lambda shape: shape.model.d_model / _n_layers(shape)),
    Facet("d_ff", "d_ff", "number", "", of_layer=_d_ff),
    Facet("d_ff_ratio", "d_ff/d", "ratio", "Shape", of_layer=_d_ff_ratio),
    Facet("active_d_ff", "active d_ff", "number", "", of_layer=_active_d_ff),
    Facet("active_d_ff_ratio", "active d_ff/d", "ratio", "Shape", of_layer=_active_d_ff_ratio),
    Facet("head_ratio", "heads/d", "ratio", "Shape", of_layer=_head_ratio),
    Facet(
        "norm",
        "norm",
        "text",
        "Norms and wiring",
        of_layer=lambda _, layer: getattr(layer.block.norm, "kind", "?"),
    ),
    Facet("placement", "placement", "text", "Norms and wiring", of_layer=_placement),
    Facet(
        "final_norm",
        "final norm",
        "flag",
        "Norms and wiring",
        of_layer=lambda _, layer: layer.stack.final_norm,
    ),
    Facet(
        "wiring",
        "wiring",
        "text",
        "Norms and wiring",
        of_layer=lambda _, layer: "parallel" if isinstance(layer.block, Parallel) else "serial",
    ),
    Facet("bias", "bias", "text", "Norms and wiring", of_layer=_bias),
    Facet(
        "ffn",
        "ffn",
        "text",
        "Feed-forward and position",
        of_layer=lambda _, layer: getattr(_network(layer), "kind", None),
    ),
    Facet(
        "activation",
        "activation",
        "text",
        "Feed-forward and position",
        of_layer=lambda _, layer: getattr(getattr(_network(layer), "activation", None), "kind", None),
    ),
    Facet("position", "position", "text", "Feed-forward and position", of_layer=_position),
    Facet("rope_theta", "theta", "number", "Feed-forward and position", of_layer=_theta),
    Facet("rope_scaling", "scaling", "text", "", of_layer=_scaling),
    Facet("attention", "attention", "text", "Attention", of_layer=_attention),
    Facet("pattern", "pattern", "text", "Attention", of_layer=lambda _, layer: layer.facts.pattern),
    Facet("stability", "stability", "text", "Attention", of_layer=_stability),
    Facet("n_heads", "heads", "number", "Heads", of_layer=lambda _, layer: layer.facts.n_heads),
    Facet(
        "n_kv_heads",
        "kv",
        "number",
        "Heads",
        of_layer=lambda _, layer: layer.facts.n_kv_heads,
    ),
    Facet("head_dim", "head_dim", "number", "Heads", of_layer=lambda _, layer: layer.facts.head_dim),
    Facet(
        "kv_bytes_per_token",
        "KV/token",
        "bytes",
        "Heads",
        lambda shape: to_bytes(shape.counted.kv_elements(), DTYPE),
    ),
    Facet("n_experts", "experts", "number", "Experts", of_layer=_moe("n_experts")),
    Facet("top_k", "top_k", "number", "Experts", of_layer=_moe("top_k")),
    Facet("expert_ratio", "experts/top_k", "ratio", "Experts", of_layer=_expert_ratio),
    Facet("active_share", "active share", "share", "Experts", _active_share),
    Facet("source", "source", "text", "", lambda shape: shape.model.source),
)
FACETS: Mapping[str, Facet] = {facet.key: facet for facet in _ALL}
"""All columns by key, in the order of data."""
