"""`python benchmarks/ivanov` as a user runs it, cut to a sequence of four tokens.

What is counted, drawn and adds up; no figure of time.
"""

import json
import subprocess
import sys

import pytest

from ivanov_table import BENCHMARKS

pytestmark = [pytest.mark.torch, pytest.mark.long]


@pytest.fixture(scope="module")
def found():
    options = ["-b", "1", "-s", "4", "--pairs", "1", "--threads", "1", "--no-ceilings", "--format", "json"]
    script = [sys.executable, str(BENCHMARKS / "ivanov"), *options]
    done = subprocess.run(script, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_it_is_run_as_the_paper_ran_it(found):
    assert {key: found["inputs"][key] for key in ("phase", "attention", "batch_size", "seq_len")} == {
        "phase": "train",
        "attention": "eager",
        "batch_size": 1,
        "seq_len": 4,
    }
    assert found["totals"]["operations_differing"] == []


def test_time_by_class_adds_up_and_random_numbers_are_apart(found):
    classes = found["totals"]["ivanov"]["classes"]
    assert sum(each["seconds"] for each in classes.values()) == pytest.approx(found["totals"]["wall_s"])
    assert classes["random"]["seconds"] > 0
    assert (
        found["totals"]["by_class"]["random"]["flops"] == found["totals"]["by_class"]["random"]["bytes"] == 0
    )
    assert {"contraction", "normalization", "elementwise", "framework", "unattributed"} <= set(classes)


def test_every_operator_was_timed_once(found):
    lines = found["totals"]["ivanov"]["operators"]
    assert len(lines) == 46
    assert [
        line["operator"] for line in lines if (line["seconds"] is None) is (line["timed_with"] is None)
    ] == []
    together = {line["operator"]: line["timed_with"] for line in lines if line["timed_with"]}
    assert together == {
        "input bias": "Q, K, V",
        "gamma": "QK^T",
        "output bias": "out",
        "bias 1": "linear 1",
        "bias 2": "linear 2",
        "LayerNorm 2 dX": "LayerNorm 2 dW",
        "linear 2 dW": "linear 2 dX",
        "linear 1 dW": "linear 1 dX",
        "LayerNorm 1 dX": "LayerNorm 1 dW",
        "out dW": "out dX",
        "gamma dX2": "gamma dX1",
        "QK^T dX1": "gamma dX1",
        "QK^T dX2": "gamma dX1",
        "Q, K, V dW": "Q, K, V dX",
        "residual 1 dX": "residual 2 dX",
    }


def test_products_executed_are_products_counted(found):
    table = found["totals"]["ivanov"]
    executed = {each["class"]: each for each in table["executed"]}
    assert executed["contraction"]["flops"] == table["classes"]["contraction"]["flops"]
    assert executed["random"]["operations"] == 4
    # a draw for each element of the probabilities and of what is dropped three more times
    assert executed["random"]["written"] == 16 * 4 * 4 + 4 * (1024 + 1024 + 4096)
