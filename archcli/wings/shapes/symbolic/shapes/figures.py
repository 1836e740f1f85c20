"""Figures of a sweep: names, units, settings, and the functions that compute them for all candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from archcli.arith import Number, rounded
from archcli.errors import ArchError, Problem, suggest
from archcli.graph import StateContent, StateKind
from archcli.measure.kvcache.cache_size import OWN, CacheDtypes
from archcli.measure.params import param_counts
from archcli.measure.passes import GROWING, Pass, cache_pass, checked_pass, shape_pass
from archcli.measure.report import Unit
from archcli.measure.survey.attributes import Architecture, architecture_of
from archcli.measure.survey.columns import COLUMNS
from archcli.modules import Model
from archcli.modules.spec.arguments import CountedPairs, Mla, Scan
from archcli.modules.spec.base import Spec, find
from archcli.modules.spec.calls import accept
from archcli.modules.spec.request import Request, pass_lengths
from archcli.modules.spec.values import AboveZero, ValueType, accepted, value_type
from archcli.modules.stored.dtypes import DtypeName, PlainDtype
from archcli.units import parse_count


class Reading:
    """The passes of a model whose sizes may stand for many candidates, each traced when first needed."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._passes: dict[str, Pass] = {}

    @cached_property
    def one_token(self) -> Pass:
        """A prefill of one token, without costs."""
        return shape_pass(self.model, Request("prefill", seq_len=1))

    @cached_property
    def architecture(self) -> Architecture:
        """The layers of the model and what a survey reads of them."""
        return architecture_of(self.model, self.one_token)

    @cached_property
    def params(self) -> Mapping[str, Number]:
        """The totals of `archcli params` that are numbers."""
        return param_counts(self.model, self.one_token.rows)[0]

    def column(self, key: str) -> Any:
        """A figure of `archcli survey`."""
        return COLUMNS[key].figure(self.architecture)

    def flops(self, request: Request, mask: str) -> tuple[Number, Number, Number]:
        """(FLOPs of matrix products, all others, new tokens) of a pass, as `archcli flops` counts them."""
        counted = self._pass(request)
        matmul, others = counted.flops(unmasked=mask == "dense")
        return rounded(matmul), rounded(others), counted.batch_size * counted.new

    def cached(self, request: Request, kinds: Container[StateKind]) -> Counter[StateContent]:
        """Cached elements by content, after a prefill."""
        contents: Counter[StateContent] = Counter()
        for row in self._cache(request).rows:
            for state in row.states:
                if state.kind in kinds:
                    contents[state.holds] += row.times * state.elements
        return contents

    def _pass(self, request: Request) -> Pass:
        # keyed by text: a request has no hash, as it holds a mapping of forms
        return self._known(f"flops {request}", lambda: checked_pass(self.model, request))

    def _cache(self, request: Request) -> Pass:
        return self._known(f"cache {request}", lambda: cache_pass(self.model, request))

    def _known(self, key: str, trace: Any) -> Pass:
        if key not in self._passes:
            self._passes[key] = trace()
        return self._passes[key]


def first_conflict(model: Model) -> str:
    """The code of the first conflict between a model's values, for which YAML is refused; or empty.

    Parts are checked before the whole, as the loader builds them: both report the same conflict first.
    """
    specs = reversed([spec for _, spec in find(model, Spec)])
    conflicts = (conflict for spec in specs for conflict in spec.check())
    return next((conflict.code for conflict in conflicts), "")


Settings = Mapping[str, Any]
DEFAULT_CONTEXT = 2048


def no_length(_: Model, __: Settings) -> dict[str, Number]:
    """No lengths: for a figure that does not depend on tokens."""
    return {}


class SweepFigure(NamedTuple):
    """A figure of a sweep.

    name, unit: as in the report.
    settings: types of its settings, as `flops(seq_len=8192)` has them.
    read: computes it.
    slow: computed for one model at a time, after all other figures.
    check: refuses settings that contradict each other.
    length: the tokens at which it is computed, by the setting's name.
    """

    name: str
    unit: Unit
    settings: Callable[[], Mapping[str, ValueType]]
    read: Callable[[Reading, Settings], Any]
    slow: bool = False
    check: Callable[[Settings], object] = dict
    length: Callable[[Model, Settings], dict[str, Number]] = no_length


FORMS = {"mla": value_type(Mla), "scan": value_type(Scan)}
SIZES = {name: known for name, known in accepted(Request).items() if name != "forms"}
PASS = {**SIZES, **FORMS, "mask": value_type(CountedPairs)}
CACHE = {
    "context": value_type(AboveZero),
    "batch_size": SIZES["batch_size"],
    "dtype": value_type(DtypeName),
    "state_dtype": value_type(PlainDtype),
    "source_len": SIZES["source_len"],
}
DTYPE = {"dtype": CACHE["dtype"]}
PARAMS = (
    "params",
    "active_params",
    "active_params_excl_input_embedding",
    "embedding_params",
    "head_params",
    "non_embedding_params",
    "trainable_params",
    "lora_params",
)


def _params(name: str) -> Callable[[Reading, Settings], Number]:
    return lambda reading, _: reading.params[name]


def _of_pass(name: str, fold: Callable[[Number, Number, Number], Number]) -> SweepFigure:
    def read(reading: Reading, settings: Settings) -> Number:
        return fold(*reading.flops(_request(reading.model, settings), settings.get("mask", "exact")))

    return SweepFigure(name, "flops", lambda: PASS, read, length=_tokens_of_pass)


def _request(model: Model, settings: Settings) -> Request:
    sizes = {name: settings[name] for name in SIZES if name in settings}
    phase, seq_len, past = settings.get("phase", "forward"), sizes.get("seq_len"), sizes.get("past")
    sizes |= pass_lengths(model.max_seq_len, phase, seq_len, past)
    return Request(**sizes, forms={name: settings[name] for name in FORMS if name in settings})


def _tokens_of_pass(model: Model, settings: Settings) -> dict[str, Number]:
    request = _request(model, settings)
    if request.phase == "decode":
        return {"past": request.seq_len if request.past is None else request.past}
    return {"seq_len": request.seq_len}


def _cached(
    kinds: tuple[StateKind, ...], *, per_token: bool = False
) -> Callable[[Reading, Settings], Number]:
    def read(reading: Reading, settings: Settings) -> Number:
        context = _context(reading.model, settings)["context"]
        tokens, sequences = (1, 1) if per_token else (context, settings.get("batch_size", 1))
        request = Request("prefill", sequences, tokens, source_len=settings.get("source_len") or tokens)
        dtypes = CacheDtypes(settings.get("dtype", "bf16"), settings.get("state_dtype"))
        return dtypes.bytes_of(reading.cached(request, kinds))

    return read


def _context(model: Model, settings: Settings) -> dict[str, Number]:
    return {"context": settings.get("context") or model.max_seq_len or DEFAULT_CONTEXT}


def _of_cache(name: str, kinds: tuple[StateKind, ...]) -> SweepFigure:
    return SweepFigure(name, "bytes", lambda: CACHE, _cached(kinds), length=_context)


def _column(key: str) -> Callable[[Reading, Settings], Any]:
    return lambda reading, _: reading.column(key)


FIGURES: dict[str, SweepFigure] = {
    figure.name: figure
    for figure in (
        *(SweepFigure(name, "count", dict, _params(name)) for name in PARAMS),
        _of_pass("flops", lambda matmul, _, __: matmul),
        _of_pass("matmul_flops", lambda matmul, _, __: matmul),
        _of_pass("other_flops", lambda _, others, __: others),
        _of_pass("flops_per_token", lambda matmul, _, tokens: matmul / tokens),
        _of_cache("kv_bytes", GROWING),
        _of_cache("cache_bytes", OWN),
        SweepFigure("kv_bytes_per_token", "bytes", lambda: DTYPE, _cached(GROWING, per_token=True)),
        SweepFigure("state_bytes", "bytes", lambda: CACHE, _cached((StateKind.FIXED,))),
    )
}
"""Figures of `archcli params`, `flops` and `kvcache` by name."""

_OF_SURVEY = {
    key: SweepFigure(key, column.unit, dict, _column(key))
    for key, column in COLUMNS.items()
    if column.is_figure and key not in FIGURES
}
FIGURES |= _OF_SURVEY


def read_settings(figure: SweepFigure, texts: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """The settings of a figure's call, as its option accepts them; ArchError for any other."""
    settings: dict[str, Any] = {}
    known = figure.settings() if texts else {}
    for name, text in texts:
        if name not in known:
            what = f"{figure.name} has no setting {name[:40]!r}"
            raise ArchError(Problem(what, suggest(name, known, "it has") if known else "it has none"))
        value = _value(text)
        # what several settings of a slow figure make together is checked by the figure
        settings[name] = value if figure.slow else accept(name, value, known, figure.name)
    figure.check(settings)
    return settings


def _value(text: str) -> Any:
    """A count, true or false, or the text."""
    try:
        return parse_count(text)
    except ArchError:
        return {"true": True, "false": False}.get(text.lower(), text)
