"""The formula, with the model's numbers put in, is the count: of presets and of random architectures."""

import re
from fractions import Fraction
from time import process_time

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import archcli
from archcli.load.source import load
from archcli.load.spec.schema import meaning
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.modules import Encoder
from archcli.modules.spec.request import Request
from archcli.wings.shapes.symbolic.explain.question import Question
from archcli.wings.shapes.symbolic.explain.report import explain
from covering import COVERING
from readings.encoders import MODELS

SECONDS = 2
"""What one formula of a preset may take."""


def evaluated(totals, key="formula"):
    """A formula read back from its text and evaluated by sympy, at the values that stand beside it."""
    names = {name: sympy.Symbol(name) for name in totals["symbols"]}
    expression = sympy.sympify(totals[key], locals=names)
    return expression.subs({names[name]: value for name, value in totals["symbols"].items()})


def counts(model, request):
    """By quantity, what counting says of it, and of the figure beside it."""
    params, flops = count_params(model).totals, count_flops(model, request).totals
    cache = count_kv_cache(model, request.seq_len, request.batch_size).totals
    return {
        "params": {"value": params["params"], "active_value": params["active_params"]},
        "flops": {"value": flops["matmul_flops"], "other_value": flops["other_flops"]},
        "kvcache": {"value": cache["elements"], "cross_value": cache["cross_elements"]},
    }


def require_equal(report, counted):
    totals = report.totals
    for key, count in counted.items():
        value = evaluated(totals, key.replace("value", "formula"))
        assert (value, totals[key]) == (count, count)
    assert sum(row["value"] for row in report.rows) == totals["value"]
    for row in report.rows:
        assert sympy.sympify(row["numbers"]) == row["value"]


def by_heading(report, heading=lambda name: name):
    sums = {}
    for row in report.rows:
        name = heading(row["heading"])
        sums[name] = sums.get(name, 0) + row["value"]
    return sums


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", COVERING)
def test_every_preset_and_quantity(name):
    model, took = load(name).model, {}
    counted, reports = counts(model, Request(seq_len=2048)), {}
    requests = {"kvcache": Request("prefill", 1, 2048)}
    for quantity in counted:
        start = process_time()
        question = Question(quantity, requests.get(quantity, Request(seq_len=2048)))
        reports[quantity] = explain(model, question, meaning)
        took[quantity] = process_time() - start
    for quantity, report in reports.items():
        require_equal(report, counted[quantity])
    assert max(took.values()) < SECONDS, took
    groups = by_heading(reports["params"], lambda name: name.removeprefix("cross_"))
    assert groups == {key: n for key, n in count_params(model).totals["by_group"].items() if n}
    components = by_heading(reports["flops"], lambda name: re.sub("^cross_", "", name))
    assert components == count_flops(model, Request(seq_len=2048)).totals["by_component"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("phase", ["train", "prefill", "decode"])
@pytest.mark.parametrize(
    "name",
    [
        "deepseek-v3",
        "gemma-2-2b",
        "t5-small",
        "zamba2-1.2b",
        "llama-4-scout",
        "longcat-flash",
        "jamba-1.5-mini",
    ],
)
def test_other_passes(name, phase):
    model = load(name).model
    request = Request(phase, 2, 300, 5000 if phase == "decode" else None)
    report = explain(model, Question("flops", request), meaning)
    flops = count_flops(model, request).totals
    assert evaluated(report.totals) == report.totals["value"] == flops["matmul_flops"]


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("form", ["naive", "absorbed"])
def test_both_forms_of_latent_attention(form):
    asked = {"phase": "decode", "past": 999, "mla": form}
    report = archcli.explain("deepseek-v2-lite", "flops", **asked)
    assert evaluated(report.totals) == archcli.count_flops("deepseek-v2-lite", **asked).totals["matmul_flops"]


PHASES = st.sampled_from(["forward", "train", "prefill", "decode"])


@pytest.mark.long
@given(model=MODELS, batch_size=st.integers(1, 3), seq_len=st.integers(1, 9), phase=PHASES)
@settings(max_examples=settings.default.max_examples // 3)  # a third of a second each: sympy
def test_random_architectures(model, batch_size, seq_len, phase):
    request = Request("forward" if isinstance(model, Encoder) else phase, batch_size, seq_len)
    counted = counts(model, request)
    requests = {"kvcache": Request("prefill", batch_size, seq_len)}
    for quantity, figures in counted.items():
        totals = explain(model, Question(quantity, requests.get(quantity, request)), meaning).totals
        exact = {key: evaluated(totals, key.replace("value", "formula")) for key in figures}
        whole = {key: round_half_up(value) for key, value in exact.items()}
        assert {key: totals[key] for key in figures} == whole == figures


def round_half_up(value):
    """An expected value as counts show it."""
    exact = Fraction(int(value.p), int(value.q))
    return (2 * exact.numerator + exact.denominator) // (2 * exact.denominator)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name", ["gpt2", "deepseek-v3", "gemma-3-1b", "t5-small", "granite-4.0-h-tiny", "rwkv-4-169m"]
)
def test_names_that_stay_symbols_change_no_value(name):
    whole = archcli.explain(name, "flops", seq_len=777).totals
    some = archcli.explain(name, "flops", seq_len=777, symbols=["d_model", "seq_len"]).totals
    assert set(some["symbols"]) <= {"d_model", "seq_len"}
    assert evaluated(some) == some["value"] == whole["value"]
    assert some["other_value"] == whole["other_value"]
