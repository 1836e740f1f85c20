"""Textbook: the approximations in common use, beside the exact count of a model.

Attention scores: a query and a key that it sees cost 4 d FLOPs, one product for the score and one for the
value that it weighs. A causal mask leaves half of all pairs, a window w about w keys for each query.

L layers of width d, V tokens in the vocabulary, T tokens. N are the parameters without embeddings and head,
as Kaplan et al. 2020 (arXiv:2001.08361, section 2.1 and table 1) count them, P all parameters. The forms are
those of one decoder of plain multi-head attention and an ungated feed-forward network four times as wide;
attention scores follow what the model's layers see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.measure.params import param_totals
from archcli.measure.passes import SCORES, Pass, count_pass, shape_pass
from archcli.modules import Model
from archcli.modules.attention.mixer import MixerFacts
from archcli.modules.models.layers import DistinctLayer, LayerIndex, layer_count, stated_layers
from archcli.modules.spec.request import Request
from archcli.wings.shapes.symbolic.explain.components import Component
from archcli.wings.shapes.symbolic.explain.question import Question
from archcli.wings.shapes.symbolic.explain.text import numbered


class SeenKeys(NamedTuple):
    """The keys that a query sees, S or the number of a window, at `flops` times d for each.

    `flops` is 4, or 2 for queries that see half of the keys on average.
    """

    flops: int
    keys: str

    def form(self, layers: str) -> str:
        """The textbook's form for so many layers."""
        return f"{self.flops}*{layers}*d*{self.keys}*T"


EVERY_KEY, EARLIER_KEYS = SeenKeys(4, "S"), SeenKeys(2, "S")


def score_forms(model: Model, question: Question) -> list[str]:
    """A form for each number of keys; if not all layers see that many, a number stands for L."""
    counts: dict[SeenKeys, int] = {}
    for layer in LayerIndex(model):
        for seen in _of_layer(layer, model, question):
            counts[seen] = counts.get(seen, 0) + layer.times
    every = layer_count(model)
    return [seen.form("L" if layers == every else str(layers)) for seen, layers in counts.items()]


def score_form(model: Model, question: Question, places: Sequence[str]) -> str | None:
    """The form of layers that are alike, by their YAML paths; None where they have no scores."""
    layers = zip(stated_layers(model), LayerIndex(model), strict=True)
    layer = next((layer for source, layer in layers if source.yaml_path in places), None)
    seen = None if layer is None else _seen(layer.facts(model.d_model), question)
    return None if seen is None else seen.form("L")


def attending_layers(model: Model, question: Question) -> Iterator[tuple[int, int | None]]:
    """(number of layers, window) of the layers that cache keys and values; None without a window."""
    length = question.request.resolved().seq_len
    counts: dict[int | None, int] = {}
    for layer in LayerIndex(model):
        facts = layer.facts(model.d_model)
        if facts.has_scores and layer.stack.is_causal:
            bound = min((n for n in (facts.window, facts.chunk) if n is not None), default=length)
            key = None if bound >= length else bound
            counts[key] = counts.get(key, 0) + layer.times
    yield from ((layers, bound) for bound, layers in counts.items())


def _of_layer(layer: DistinctLayer, model: Model, question: Question) -> Iterator[SeenKeys]:
    """What the queries of a layer see: its own tokens, and in a decoder those of an encoder."""
    seen = _seen(layer.facts(model.d_model), question)
    if question.request.phase == "decode" and not layer.stack.is_causal:
        return  # the encoder has run
    if seen is not None:
        yield seen
    # a text passes layers by that read images alone
    if layer.block.crosses_source and not (layer.block.reads_media and model.source_length(1) is None):
        yield EVERY_KEY


def _seen(facts: MixerFacts, question: Question) -> SeenKeys | None:
    """What a query of a mixer sees under the question's mask; None without softmax attention."""
    if not facts.has_scores:
        return None
    request = question.request.resolved()
    if question.mask == "dense" and request.phase != "decode":
        return EVERY_KEY
    length = request.past + request.seq_len
    bounds = [n for n in (facts.window, facts.sparse_window, facts.indexed) if n is not None and n < length]
    if bounds:
        return SeenKeys(4, str(min(bounds)))
    if facts.chunk is not None and facts.chunk < length:
        return SeenKeys(2, str(facts.chunk))  # of its chunk, a query sees the earlier half
    return EARLIER_KEYS if facts.causal and request.phase != "decode" else EVERY_KEY


KAPLAN = "Kaplan et al. 2020, arXiv:2001.08361"
HOFFMANN = "Hoffmann et al. 2022, arXiv:2203.15556, appendix F: 6 N D with all parameters as N"
FORMS: Mapping[tuple[str, str], str] = {
    ("params", "embedding"): "V*d",
    ("params", "lm_head"): "V*d",
    ("params", "attention"): "4*L*d**2",
    ("params", "ffn"): "8*L*d**2",
    # 2 FLOPs for each weight and token
    ("flops", "attention_proj"): "8*L*d**2*T",
    ("flops", "ffn"): "16*L*d**2*T",
    ("flops", "lm_head"): "2*V*d*T",
    ("kvcache", "keys and values"): "2*L*d*T",
}
"""The forms of single components in a forward, by quantity and heading; L are the layers that have it."""


class Approximation(NamedTuple):
    """A textbook form, what it stands for, and the exact count of that."""

    of: str
    formula: str
    exact: int
    source: str


def letters(model: Model, question: Question) -> dict[str, int]:
    """The values of the letters that textbooks write; S is the length of a sequence."""
    request = question.request.resolved()
    length = request.past + request.seq_len
    return {
        "L": layer_count(model),
        "d": model.d_model,
        "V": model.vocab_size,
        "T": request.batch_size * request.seq_len,
        "S": length,
    }


def textbook_line(
    model: Model, question: Question, component: Component, layers: int
) -> dict[str, Any] | None:
    """A step that says the textbook's form of a component in so many layers; None where there is none."""
    form = FORMS.get((question.quantity, component.heading))
    if question.quantity == "flops" and component.heading == SCORES:
        form = EVERY_KEY.form("L") if component.mixer else score_form(model, question, component.layers)
    if form is None:
        return None
    if question.quantity == "flops" and question.request.phase == "train":
        form = f"3*{form}"  # a backward is two forwards
    numbers = numbered(form, {**letters(model, question), "L": layers})
    return {"step": "textbook", "formula": form, "numbers": numbers, "value": evaluated(numbers)}


def evaluated(product: str) -> int:
    """The value of sums of products of whole numbers and their squares, such as 12*12*768**2 + 768."""
    total = 0
    for summand in product.split(" + "):
        value = 1
        for factor in summand.replace("**", "^").split("*"):
            base, _, power = factor.partition("^")
            value *= int(base) ** int(power or 1)
        total += value
    return total


def approximations(model: Model, question: Question, counted: Pass) -> list[dict[str, Any]]:
    """A record for each approximation of the quantity: its value, the exact one, and the error."""
    values = letters(model, question)
    rows = shape_pass(model).rows
    totals = param_totals(model, rows)
    values["P"] = totals["active_params"]
    # Kaplan's N has neither embeddings nor head; of a mixture it has the active experts alone
    values["N"] = totals["active_params"] - (totals["params"] - totals["non_embedding_params"])
    forms = {"params": _of_params(totals), "kvcache": _of_cache(model, question, counted)}
    chosen = forms.get(question.quantity) or _of_flops(model, question, counted)
    return [_record(approximation, values) for approximation in chosen]


def _record(approximation: Approximation, values: Mapping[str, int]) -> dict[str, Any]:
    numbers, exact = numbered(approximation.formula, values), approximation.exact
    value = evaluated(numbers)
    return {
        "of": approximation.of,
        "formula": approximation.formula,
        "numbers": numbers,
        "value": value,
        "exact": exact,
        "error": value / exact - 1 if exact else None,
        "source": approximation.source,
    }


def _of_params(totals: Mapping[str, int]) -> Iterator[Approximation]:
    yield Approximation("non-embedding params", "12*L*d**2", totals["non_embedding_params"], KAPLAN)
    yield Approximation("params", "12*L*d**2 + V*d", totals["params"], KAPLAN)


def _of_cache(model: Model, question: Question, counted: Pass) -> Iterator[Approximation]:
    batch_size, every = question.request.resolved().batch_size, layer_count(model)
    forms = [
        f"2*{'L' if layers == every else layers}*d*{'T' if window is None else window * batch_size}"
        for layers, window in attending_layers(model, question)
    ]
    if forms:
        source = "2 vectors of width d per token and layer"
        yield Approximation("elements, multi-head", " + ".join(forms), int(counted.cached()), source)


def _of_flops(model: Model, question: Question, counted: Pass) -> Iterator[Approximation]:
    unmasked = question.mask == "dense"
    request = question.request.resolved()
    if request.phase != "train":
        flops = int(counted.flops(unmasked=unmasked)[0])
        yield Approximation("forward, N non-embedding parameters", "2*N*T", flops, KAPLAN)
        scores = score_forms(model, question)
        if scores:
            form = " + ".join(("2*N*T", *scores))
            yield Approximation("forward, N and attention scores", form, flops, f"{KAPLAN}, table 1")
        yield Approximation("forward, P all active parameters", "2*P*T", flops, HOFFMANN)
    if request.phase in {"prefill", "decode"}:
        return
    sizes = request.batch_size, request.seq_len, None, request.source_len
    try:
        trained = count_pass(model, Request("train", *sizes))
    except ArchError:  # too few tokens to train on
        return
    flops = int(trained.flops(unmasked=unmasked)[0])
    # 2 N T forward, and twice as many backward
    yield Approximation("training, N non-embedding parameters", "6*N*T", flops, KAPLAN)
    yield Approximation("training, P all active parameters", "6*P*T", flops, HOFFMANN)
