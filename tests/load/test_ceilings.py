"""Rates kept between runs: what is no rate is measured anew, whoever wrote the file."""

import json

import pytest

from archcli.load.ceilings import kept_ceilings

RATES = {"gemm_flops_per_s": 2e12, "dram_bytes_per_s": 1e10, "cache_bytes_per_s": 4e10, "dtype": "fp32"}


def test_rates_of_an_earlier_run_say_so(tmp_path):
    file = tmp_path / "ceilings.json"
    file.write_text(json.dumps({"this machine": RATES}))
    assert kept_ceilings(file) == {"this machine": RATES | {"measured": "earlier"}}


NO_RATES = {
    "no entry": [1, 2],
    "a rate is missing": {key: value for key, value in RATES.items() if key != "dram_bytes_per_s"},
    "a rate is text": RATES | {"gemm_flops_per_s": "2e12"},
    "a rate is zero": RATES | {"cache_bytes_per_s": 0.0},
    "a rate is infinite": RATES | {"cache_bytes_per_s": float("inf")},
    "no dtype": RATES | {"dtype": 32},
}


@pytest.mark.parametrize("entry", NO_RATES.values(), ids=NO_RATES)
def test_what_is_no_rate_is_left_out(tmp_path, entry):
    file = tmp_path / "ceilings.json"
    file.write_text(json.dumps({"bad": entry, "good": RATES}))
    assert list(kept_ceilings(file)) == ["good"]


@pytest.mark.parametrize("text", [None, "{", "[1]"], ids=["absent", "no JSON", "a list"])
def test_a_file_that_is_none_holds_nothing(tmp_path, text):
    file = tmp_path / "ceilings.json"
    if text is not None:
        file.write_text(text)
    assert kept_ceilings(file) == {}
