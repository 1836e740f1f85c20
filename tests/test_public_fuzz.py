"""The Python API on arguments that nobody meant: ArchError, or an exact answer."""

import json
import math
from inspect import signature

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archcli
from archcli.modules.spec import kinds
from archcli.modules.spec.request import Medium
from archcli.wings.shapes.api.explain import ARGUMENTS

NAMES = ("gpt2", "deepseek-v3", "t5-base", "bert-base-uncased", "gemma-2-9b", "performer", "mixtral-8x7b")
MODELS = [archcli.load(name) for name in (*NAMES, "longformer-base-4096")]

anything = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=3)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
    | st.sampled_from([object(), 1j, np.float64(2), np.array([3]), np.array(2.5), np.str_("bf16"), archcli])
)
amounts = st.integers(0, 10**6) | st.integers(0, 10**30) | st.integers(1, 2**31 - 1).map(np.int64)
WORDS = {
    "phase": ["forward", "train", "prefill", "decode"],
    "logits": [None, "all", "last"],
    "mla": ["auto", "naive", "absorbed"],
    "scan": ["auto", "chunked", "recurrent"],
    "mask": ["exact", "dense"],
    "state_dtype": [None, "bf16", "fp32"],
    "media": [(), [Medium("image", (32, 32))]],
    "dtype": ["bf16", "fp32", "int4", "float8_e4m3fn"],
    "by": [None, "year", "series"],
    "sort": [None, "params", "head_ratio:desc"],
    "columns": [[], ["params"], ["name", "d_ff_ratio"]],
    "where": [[], ["params>1B"], ["norm=rmsnorm", "released>=2020"]],
    "memory": [None, "80GiB", 10**9, 0],
}
AMOUNTS = ("params", "active_params", "bytes", "matmul_flops", "other_flops", "macs", "elements", "tokens")
SIZES = {"batch_size", "seq_len", "past", "source_len", "context", "depth"}


def mostly(fitting):
    """What fits; once in twenty draws anything."""
    return st.integers(0, 19).flatmap(lambda draw: anything if draw == 19 else fitting)


def values_of(name):
    """What an argument takes."""
    return mostly(amounts if name in SIZES else st.sampled_from(WORDS[name]))


def options_of(function):
    names = [name for name in signature(function).parameters if name in SIZES or name in WORDS]
    return st.fixed_dictionaries({}, optional={name: values_of(name) for name in names})


known = st.sampled_from([*MODELS, "gpt2", {"model_type": "llama", "num_hidden_layers": 2}])
models = mostly(known)


def exact(answer):
    """Raise AssertionError for a figure that no architecture has."""
    figures = json.loads(f"{answer:json}")
    amounts = [figures["totals"][key] for key in AMOUNTS if key in figures["totals"]]
    assert all(type(amount) is int for amount in amounts)
    for number in numbers(figures["totals"], figures["rows"]):
        assert number >= 0
        assert math.isfinite(number)
    assert str(answer)
    assert answer._repr_html_()


def numbers(*values):
    for value in values:
        if isinstance(value, dict):
            yield from numbers(*value.values())
        elif isinstance(value, list):
            yield from numbers(*value)
        elif isinstance(value, int | float):
            yield value


def asked(function, args, options):
    """The answer to a call, None where it is refused in words."""
    try:
        return function(*args, **options)
    except archcli.ArchError as error:
        refused = error
    assert str(refused)
    assert all(problem.what for problem in refused.problems)
    return None


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("function", [archcli.count_params, archcli.count_flops, archcli.count_kv_cache])
@given(data=st.data())
def test_a_model_is_counted_exactly_or_refused(function, data):
    model, options = data.draw(models), data.draw(options_of(function))
    report = asked(function, [model], options)
    if report is not None:
        exact(report)


@pytest.mark.long
@given(given_models=st.lists(models, min_size=1, max_size=3), options=options_of(archcli.compare))
def test_a_comparison_is_exact_or_refused(given_models, options):
    report = asked(archcli.compare, given_models, options)
    if report is not None:
        exact(report)


@given(given_models=st.lists(models, min_size=1, max_size=3), options=options_of(archcli.survey))
def test_a_survey_is_exact_or_refused(given_models, options):
    report = asked(archcli.survey, given_models, options)
    if report is not None:
        exact(report)


explained = mostly(
    st.sampled_from([[], ["d_model"], ["seq_len", "n_layers"], ["d_ff"], ["window"], ["past"], ["d_modl"]])
)
SHOWN = {
    "symbols": explained,
    "at": explained,
    "path": mostly(st.sampled_from([None, "layers.*", "layers.3.attention", "embedding", "final_norm", ""])),
    **dict.fromkeys(("approx", "steps", "latex"), mostly(st.booleans())),
}


@pytest.mark.long
@given(
    model=models,
    quantity=mostly(st.sampled_from(list(ARGUMENTS))),
    options=options_of(archcli.explain),
    told=st.fixed_dictionaries({}, optional=SHOWN),
    idle=st.integers(0, 9),
)
def test_a_formula_is_exact_or_refused(model, quantity, options, told, idle):
    if quantity in list(ARGUMENTS) and idle:  # once in ten draws an option that another quantity takes
        told = {name: value for name, value in told.items() if name != "path" or quantity == "params"}
        options = {name: value for name, value in options.items() if name in ARGUMENTS[quantity]}
    report = asked(archcli.explain, [model, quantity], {**options, **told})
    if report is not None:
        assert type(report.totals["value"]) is int
        assert report.totals["value"] == sum(row["value"] for row in report.rows)
        assert json.loads(f"{report:json}")["rows"] == report.to_dict()["rows"]


swept = st.sampled_from(["d_ff", "d_model", "n_layers", "n_heads", "vocab_size", "window", "top_k", "tied"])
fitting = st.lists(st.integers(1, 10**5), min_size=2, max_size=2)
candidates = mostly(fitting) | mostly(fitting) | st.lists(anything, max_size=3)


@given(
    model=st.sampled_from(MODELS),
    values=mostly(st.dictionaries(swept, candidates, min_size=1, max_size=2)),
    options=st.fixed_dictionaries(
        {}, optional={name: values_of(name) for name in ("batch_size", "seq_len", "mask")}
    ),
)
def test_a_sweep_is_exact_or_refused(model, values, options):
    figures = asked(archcli.sweep, [model, values], options)
    if figures is not None:
        assert all(row.dtype == np.int64 and row.min() >= 0 for row in figures)
        assert "candidates" in str(figures)


def texts(*fitting):
    return mostly(st.lists(st.sampled_from(fitting), max_size=2))


SEARCHED = {
    "vary": texts(
        "d_ff=8:64:8", "d_model=16,32,64", "n_layers=1:3", "norm.kind=rmsnorm,layernorm,x", "d_ff=8:1"
    ),
    "tie": texts("d_ff=8/3*d_model@8", "n_heads=d_model/16", "d_ff=params", "vocab_size=3", "d_model"),
    "where": texts("params > 0", "params in 1..1e30", "head_ratio < 2", "kv_bytes(context=9) >= 0", "x > 1"),
    "minimize": texts("params", "flops(seq_len=5)/params", "1/(d_model - 16)", "active_share", "time"),
    "maximize": texts("n_layers", "kv_bytes_per_token"),
    "show": texts("aspect_ratio", "peak_bytes(seq_len=4)", "d_model*n_layers"),
    "check": mostly(st.booleans()),
    "top": values_of("batch_size"),
}


@given(model=st.sampled_from(MODELS), options=st.fixed_dictionaries({}, optional=SEARCHED))
def test_a_search_is_exact_or_refused(model, options):
    report = asked(archcli.sweep, [model], options)
    if report is not None:
        exact(report)
        tried = sum(report.totals["dropped"].values()) + report.totals["matching"]
        assert len(report.rows) <= report.totals["matching"] <= tried <= report.totals["candidates"]


OTHERS = ("forms", "in_prompt")
"""Fields with values of their own, and the one that `Model.placing` alone states."""
request_fields = {
    name: values_of(name) for name in signature(archcli.Request).parameters if name not in OTHERS
}


@given(
    fields=st.fixed_dictionaries({}, optional=request_fields | {"forms": mostly(st.just({"mla": "auto"}))})
)
def test_a_request_is_plain_or_refused(fields):
    request = asked(archcli.Request, [], fields)
    if request is not None and request.is_plain:
        answer = asked(archcli.count_flops, [MODELS[0], request], {})
        assert answer is None or exact(answer) is None


settings = mostly(
    st.lists(st.sampled_from(["d_ff=8", "n_layers=2", "tied=true", "x", "d_ff=-1"]), max_size=2)
)


@given(model=models, overrides=settings)
def test_what_is_loaded_is_a_model_or_refused(model, overrides):
    loaded = asked(archcli.load, [model], {"overrides": overrides})
    assert loaded is None or isinstance(loaded, archcli.Model)


@given(kind=anything, place=anything)
def test_a_kind_is_registered_by_its_place_or_refused(kind, place):
    before = dict(kinds.registered)
    try:
        assert asked(archcli.register, [kind, place], {}) is None
    finally:
        kinds.registered.clear()
        kinds.registered.update(before)
