"""Pools of states, windows and tokens, as SGLang cuts its memory, against its published servers."""

import pytest

from archcli.load import load
from archcli.wings.serving.api.predict import PredictOptions, predict_question
from archcli.wings.serving.devices.engines import load_engine
from archcli.wings.serving.queueing.room import Lengths, cache_room


def room(name, device, **options):
    options = {"phase": "serve", "seq_len": 8192, "new": 1024, "engine": "sglang", **options}
    question = predict_question(load(name), PredictOptions(load(name), device, **options))
    return cache_room(question, Lengths(8192, 9216), 1024, load_engine("sglang")["pools"])


def test_states_have_nine_parts_of_nineteen_and_five_slots_a_sequence():
    """Qwen3.6 27B: 48 heads of 128 x 128 numbers in fp32 in 48 layers, and 4 inputs of 10,240 channels."""
    found = room("qwen3.6-27b", "h200-sxm", utilization=0.8)
    state = 48 * (48 * 128 * 128 * 4 + 4 * 10_240 * 2)
    token = 16 * 2 * 4 * 256 * 2
    assert (found.page, found.fixed, found.page_bytes) == (1, 0, token)
    # 0.9 / 1.9 of the bytes for states, the rest for tokens
    assert found.sequences == found.pages * token * 0.9 // state // 5


# sequences that decode, by Little's law: requests a second times 1,024 tokens times the seconds of one, of
# SGLang's documentation of Qwen3.6 and Gemma 4 (benchmarks/measured/load.csv), 1,024 in flight
DECODING = {
    ("qwen3.6-27b", "h200-sxm", "fp8"): 1090 * 0.03471,
    ("qwen3.6-27b", "b200-sxm", None): 1350.44 * 0.03156,
    ("qwen3.6-35b-a3b", "b200-sxm", "fp8"): 5218.11 * 0.0243,
    ("qwen3.6-35b-a3b", "b300-sxm", "fp8"): 6008.89 * 0.03469,
    ("gemma-4-12b", "b200-sxm", None): 2950.67 * 0.01586,
}


@pytest.mark.parametrize("case", DECODING)
def test_published_servers_have_as_many_sequences(case):
    """At most so many run; some slots are empty while a prompt runs, and not all memory is a cache's."""
    name, device, dtype = case
    found = room(name, device, dtype=dtype, utilization=0.8)
    most = min(found.sequences, found.pages / 9216)
    assert 1 / 1.1 < most / DECODING[case] < 1.6
