"""Attributes of architectures and of their distinct layers: the values of a survey's columns.

Structure is read from the fields of the spec, figures from the rows of one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from archcli.arith import Number, rounded, to_bytes
from archcli.errors import as_int, format_setting
from archcli.graph import OpClass, Row
from archcli.measure.passes import Pass, shape_pass
from archcli.modules import Block, FeedForward, MixerFacts, Model, Norm, Position, Stack
from archcli.modules.blocks.block import MIXING, RESIDUAL
from archcli.modules.models.layers import LayerIndex
from archcli.modules.models.stack import stacks
from archcli.modules.spec.kinds import kind_of
from archcli.modules.spec.request import SOUNDS, Request

TIMES = "×"


class SurveyLayer(NamedTuple):
    """Equal layers of a stack.

    path: of their rows. block: their module. times: how many they are. rows: of one of them.
    stack, position: their stack, and what it adds to the embeddings.
    facts: of their mixers. ffn: their feed-forward network; None without one.
    """

    path: str
    block: Block
    times: Number
    rows: tuple[Row, ...]
    stack: Stack
    position: Position
    facts: MixerFacts
    ffn: FeedForward | None

    def below(self, step: str) -> Iterator[Row]:
        """The rows of one part of the layer: attention, mixer, cross_attention or ffn."""
        start = f"{self.path}.{step}."
        return (row for row in self.rows if row.path.startswith(start))

    @property
    def order(self) -> str:
        """Norms N, sublayers S and additions to the stream + in their order: `NS+NS+` is pre-norm."""
        letters, last = "", ""
        for row in self.rows:
            step, _, rest = row.path[len(self.path) + 1 :].partition(".")
            if rest:
                # a sublayer has several rows, and counts once
                letters += "S" if step != last else ""
                last = step
            elif row.group == Norm.group:
                letters += "N"
            elif step.endswith(RESIDUAL):
                letters += "+"
        return letters


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model, one token's prefill of it, and its distinct layers."""

    model: Model
    counted: Pass
    layers: tuple[SurveyLayer, ...]


def architecture_of(model: Model, counted: Pass | None = None) -> Architecture:
    """Count a pass of one token through the model, if there is none yet, and sort its rows by layer."""
    counted = counted or shape_pass(model, Request("prefill", seq_len=1))
    return Architecture(model, counted, tuple(_layers(model, counted.rows)))


def _layers(model: Model, rows: tuple[Row, ...]) -> Iterator[SurveyLayer]:
    index = LayerIndex(model)
    by_layer = index.by_layer(rows)
    for layer in index:
        # a stack inside an encoder-decoder has a position of its own
        position = layer.stack.value_of("position") or model.embedding.position
        rows_of, facts = tuple(by_layer.get(layer.path, ())), layer.facts(model.d_model)
        where = (layer.path, layer.block, layer.times, rows_of, layer.stack)
        yield SurveyLayer(*where, position, facts, layer.ffn)


def tally(values: Iterable[tuple[Any, Number]]) -> dict[Any, Number]:
    """(value, number of layers) in order of appearance."""
    counts: dict[Any, Number] = {}
    for value, times in values:
        counts[value] = counts.get(value, 0) + times
    return counts


def format_tally(counts: dict[Any, Number], nothing: str = "none") -> str | None:
    """A tally as text, `window 4096 ×21, full ×21`; a single value is returned alone."""
    texts = {value: nothing if value is None else format_setting(value) for value in counts}
    if len(counts) == 1:
        return next((text for value, text in texts.items() if value is not None), None)
    return ", ".join(f"{texts[value]} {TIMES}{times}" for value, times in counts.items())


def most_common(counts: Iterable[tuple[Any, Number]]) -> Any:
    """The most frequent value of the layers, None aside; the first of several.

    Values are compared and not hashed, as they may stand for many candidates.
    """
    totals: list[list[Any]] = []
    for value, times in counts:
        known = next((entry for entry in totals if entry[0] == value), None)
        if known is not None:
            known[1] += times
        elif value is not None:
            totals.append([value, times])
    return max(totals, key=lambda entry: entry[1])[0] if totals else None


def released(architecture: Architecture) -> str | None:
    """The year, or year and month, as text."""
    date = architecture.model.released
    return None if date is None else str(date)


def year(architecture: Architecture) -> int | None:
    """The year of release."""
    date = released(architecture)
    return int(date[:4]) if date else None


def media(architecture: Architecture) -> str | None:
    """Media that it reads: image, audio; None for text alone."""
    kinds = ("audio" if medium in SOUNDS else medium for medium in architecture.model.media)
    return ", ".join(dict.fromkeys(kinds)) or None


def depths(architecture: Architecture) -> dict[str, Number]:
    """Layers of each stack, by its name."""
    kind = kind_of(architecture.model) or "decoder"
    return {
        stem[:-1] or kind: sum(group.n_layers for group in stack.groups)
        for stem, stack in stacks(architecture.model)
    }


def n_layers(architecture: Architecture) -> Number:
    """Layers of the deepest stack."""
    return max(depths(architecture).values())


def aspect_ratio(architecture: Architecture) -> float | None:
    """d_model / n_layers; None of patches alone."""
    layers = n_layers(architecture)
    return architecture.model.d_model / layers if layers else None


def active(architecture: Architecture) -> Number:
    """Active parameters per token."""
    return sum(row.active_params for row in architecture.counted.rows)


def placement(_: Architecture, layer: SurveyLayer) -> str:
    """Placement of norms: before a sublayer, after it inside the residual, or on the stream."""
    order = layer.order
    is_at = {"pre": order.startswith("N"), "after": "SN+" in order, "post": order.endswith("+N")}
    places = [place for place, stands_there in is_at.items() if stands_there]
    return "sandwich" if places == ["pre", "after"] else " + ".join(places) or "none"


def position(_: Architecture, layer: SurveyLayer) -> str:
    """Kinds of position: added to embeddings, used by the mixer, and added to scores."""
    kinds = map(kind_of, (layer.position, layer.facts.position, layer.stack.score_bias))
    return " + ".join(kind for kind in kinds if kind not in {"", "none"}) or "none"


def theta(_: Architecture, layer: SurveyLayer) -> float | None:
    """The base of RoPE."""
    base = layer.facts.position.rope_base
    return None if base is None else as_int(base)


def scaling(_: Architecture, layer: SurveyLayer) -> str:
    """The kind of RoPE scaling beyond the trained context."""
    return layer.facts.position.scaling_kind


def attention(_: Architecture, layer: SurveyLayer) -> str | None:
    """The kind of mixer, and whether cross attention follows it; None where a layer mixes nothing."""
    cross = "cross" if layer.block.crosses_source else None
    return " + ".join(kind for kind in (layer.facts.kind, cross) if kind) or None


def mixers(architecture: Architecture) -> str | None:
    """Numbers of layers by mixer, `36 mamba2 + 4 gqa`; None for a model without recurrent layers."""
    if not _is_recurrent(architecture):
        return None
    counts = tally((layer.facts.kind, layer.times) for layer in _mixing(architecture))
    # kinds of parallel branches are joined by a plus of their own
    return " + ".join(f"{times} {str(kind).replace(' + ', '&')}" for kind, times in counts.items())


def attention_share(architecture: Architecture) -> float | None:
    """Layers with scores over layers with a mixer; None for a model without recurrent layers."""
    if not _is_recurrent(architecture):
        return None
    layers = list(_mixing(architecture))
    attending = sum(layer.times for layer in layers if layer.facts.has_scores)
    share: float = attending / sum(layer.times for layer in layers)
    return share


def state_bytes(architecture: Architecture, dtype: str) -> Number | None:
    """Bytes of a sequence's states that do not grow; None where there are none."""
    return to_bytes(architecture.counted.state_elements(), dtype) or None


def _is_recurrent(architecture: Architecture) -> bool:
    return bool(architecture.counted.state_elements())


def _mixing(architecture: Architecture) -> Iterator[SurveyLayer]:
    return (layer for layer in architecture.layers if layer.facts.kind is not None)


def recurrence(field: str) -> Callable[[Architecture, SurveyLayer], Number | None]:
    """A property of a layer's recurrence, None for any other layer."""
    return lambda _, layer: layer.facts.recurrence and getattr(layer.facts.recurrence, field)


def head_ratio(architecture: Architecture, layer: SurveyLayer) -> float | None:
    """Width of all query heads over d_model."""
    heads, width = layer.facts.n_heads, layer.facts.head_dim
    return None if heads is None or width is None else heads * width / architecture.model.d_model


def stability(architecture: Architecture, layer: SurveyLayer) -> str | None:
    """Measures that bound scores and logits: norms of queries and keys, soft caps, clips, sinks."""
    logits = ("logit softcap",) if architecture.model.logit_softcap else ()
    return " + ".join((*layer.facts.stability, *logits)) or None


def bias(_: Architecture, layer: SurveyLayer) -> str:
    """The parts of a layer whose products have a bias."""
    parts = [part for part in (*MIXING, "ffn") if any(_is_biased(row) for row in layer.below(part))]
    return " + ".join(parts) or "none"


def _is_biased(row: Row) -> bool:
    products = any(part.op_class is OpClass.CONTRACTION for part in row.op.parts(*row.inputs))
    return products and "bias" in row.weights


def network(layer: SurveyLayer) -> FeedForward | None:
    """The network of a dense layer, or that of one expert."""
    return layer.ffn and layer.ffn.dense_network


def ffn(_: Architecture, layer: SurveyLayer) -> str | None:
    """The kind of network, of mixtures the kind of one expert."""
    return kind_of(network(layer)) or None


def activation(_: Architecture, layer: SurveyLayer) -> str | None:
    """The activation function of the network."""
    dense = network(layer)
    return None if dense is None else dense.activation_kind


def d_ff(_: Architecture, layer: SurveyLayer) -> Number | None:
    """The hidden width of the network, of mixtures that of one expert."""
    dense = network(layer)
    return None if dense is None else dense.width


def d_ff_ratio(architecture: Architecture, layer: SurveyLayer) -> float | None:
    """d_ff over d_model."""
    width = d_ff(architecture, layer)
    return width and width / architecture.model.d_model


def active_d_ff(_: Architecture, layer: SurveyLayer) -> Number | None:
    """The active hidden width per token: inputs of `down_proj` rows, top_k times for experts."""
    rows = (*layer.below("ffn"), *layer.below("beside"))
    downs = [row for row in rows if row.path.endswith("down_proj")]
    width = sum(row.inputs[0][-1] * (row.experts.top_k if row.experts else 1) for row in downs)
    # top_k is an expected value, and a fraction, where some experts compute nothing (LongCat-Flash)
    return rounded(width) or None


def active_d_ff_ratio(architecture: Architecture, layer: SurveyLayer) -> float | None:
    """active_d_ff over d_model."""
    width = active_d_ff(architecture, layer)
    return width and width / architecture.model.d_model


def n_experts(_: Architecture, layer: SurveyLayer) -> Number | None:
    """Routed experts."""
    return _mixture(layer)[0]


def top_k(_: Architecture, layer: SurveyLayer) -> Number | None:
    """Experts that a token is sent to."""
    return _mixture(layer)[1]


def _mixture(layer: SurveyLayer) -> tuple[Number | None, Number | None]:
    """(experts, experts of a token) of the layer's last network; (None, None) without a mixture."""
    *_, last = (layer.ffn, *layer.block.all_networks[1:])
    return (None, None) if last is None else last.expert_counts


def expert_ratio(architecture: Architecture, layer: SurveyLayer) -> float | None:
    """n_experts over top_k."""
    experts, chosen = n_experts(architecture, layer), top_k(architecture, layer)
    return None if experts is None or chosen is None else experts / chosen


def active_share(architecture: Architecture) -> float | None:
    """Active parameters over all parameters, of a model with experts."""
    routed = any(row.experts for row in architecture.counted.rows)
    return active(architecture) / architecture.counted.params() if routed else None
