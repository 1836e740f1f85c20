"""Profiles of a tiny model on this machine, constants fitted to them, and a prediction beside a fourth."""

import json

import pytest

pytestmark = pytest.mark.long
SIZES = ("16", "32", "64")
TINY = ("gpt2", "--layers", "2", "--pairs", "2", "--threads", "1")


@pytest.fixture
def files(cli, tmp_path, monkeypatch):
    """Profiles of three lengths, as --calibrate takes them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    given = []
    for size in SIZES:
        file = tmp_path / f"{size}.json"
        done = cli("profile", *TINY, "-s", size, "--allocator", "system", "--json", "-o", file)
        assert done.code == 0, done.err
        given += ["--calibrate", file]
    return given


def test_measured_stands_beside_predicted_and_predict_takes_the_constants(cli, files):
    asked = ("-s", "48", "--allocator", "system", "--against-prediction", *files, "--json")
    done = cli("profile", *TINY, *asked)
    assert done.code == 0, done.err
    totals = json.loads(done.out)["totals"]
    *classes, whole = totals["prediction"]
    measured = {one["class"]: one["measured_s"] for one in classes}
    assert measured == {name: totals["by_class"][name]["seconds"] for name in measured}
    assert whole["measured_s"] == pytest.approx(totals["wall_s"])
    for name in ("floor_s", "expected_s", "low_s", "high_s"):
        assert whole[name] == pytest.approx(sum(one[name] for one in classes))
    assert 0 < whole["low_s"] < whole["expected_s"] < whole["high_s"]
    assert 0.3 < whole["expected_over_measured"] < 3

    done = cli("predict", "gpt2", "--device", "local", "--dtype", "fp32", *files, "--json")
    assert done.code == 0, done.err
    device = json.loads(done.out)["totals"]["device"]
    assert all(str(file) in device["source"] for file in files[1::2])

    done = cli("predict", "gpt2", "--device", "local", "--dtype", "fp32", *files[:2])
    assert done.code == 2
    assert "3 are needed" in done.err
