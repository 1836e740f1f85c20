"""Rates kept between runs: what is no rate is measured anew, whoever wrote the file."""

import json
import os

import pytest

from archcli.wings.serving.devices.ceilings import kept_ceilings

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
    "a rate is too small to divide by": RATES | {"dram_bytes_per_s": 5e-324},
    "a rate is beyond any machine": RATES | {"dram_bytes_per_s": 1e300},
    "a rate is no number": RATES | {"dram_bytes_per_s": float("nan")},
    "no dtype": RATES | {"dtype": 32},
    "a list of dtypes": RATES | {"dtype": ["fp32"]},
    "an unknown dtype": RATES | {"dtype": "fp33"},
}


@pytest.mark.parametrize("entry", NO_RATES.values(), ids=NO_RATES)
def test_what_is_no_rate_is_left_out(tmp_path, entry):
    file = tmp_path / "ceilings.json"
    file.write_text(json.dumps({"bad": entry, "good": RATES}))
    assert list(kept_ceilings(file)) == ["good"]


DAMAGED = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[1]",
    "no UTF-8": b'{"\xff": 1}',
    "nested too deep": b"[" * 100_000,
    "a number of 5,000 digits": b'{"a": ' + 5_000 * b"9" + b"}",
    "zeros": bytes(4096),
    "too large": b" " * (1 << 20) + b"{}",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_holds_nothing(tmp_path, data):
    file = tmp_path / "ceilings.json"
    file.write_bytes(data)
    assert kept_ceilings(file) == {}


def test_what_is_no_file_holds_nothing(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert kept_ceilings(tmp_path / "absent.json") == {}
    assert kept_ceilings(tmp_path) == {}
    assert kept_ceilings(tmp_path / "pipe") == {}
