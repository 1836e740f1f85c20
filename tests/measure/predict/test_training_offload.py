"""A training step with an offload: the host's step and the copies over the bus, by hand."""

import pytest

import archcli
from archcli.errors import ArchError

GB = 1e9
WEIGHTS, BF16, FP32 = 1_235_814_400, 2, 4
OFFLOADED = {"phase": "train", "device": "rtx-4090", "ram_bandwidth": "80GB/s", "bus_bandwidth": "25GB/s"}


def predicted(offload, **options):
    return archcli.predict("llama-3.2-1b", **{**OFFLOADED, "offload": offload, **options})


def rows(report):
    return {row["path"]: row for row in report.rows}


def test_the_host_steps_at_the_rate_of_ram():
    """A weight's gradient, master and moments are read, 16 bytes; 12 and its copy in 16 bits are written."""
    report = predicted("optimizer")
    update = rows(report)["update"]
    assert update["bytes"] == pytest.approx(WEIGHTS * (16 + 12 + BF16), rel=1e-5)
    assert update["floor_s"] == pytest.approx(update["bytes"] / (80 * GB))
    assert update["bound_by"] == "ram"
    # nothing of it was measured, and it is more than a tenth: the limit alone
    assert report.totals["time_s"]["expected"] is None
    two = archcli.predict(
        "llama-3.2-1b", **{**OFFLOADED, "device": "2xrtx-4090"}, dp=2, zero=3, offload="optimizer"
    )
    # each device of two has half of the states, and both step in the same RAM
    assert rows(two)["update"]["floor_s"] == pytest.approx(update["floor_s"], rel=1e-3)


def test_gradients_go_down_and_new_weights_come_back():
    once, twice = (rows(predicted("optimizer", grad_accum=n))["bus"]["bytes"] for n in (1, 2))
    assert once == WEIGHTS * (BF16 + BF16)
    # the second micro batch brings them back to add to, and takes the sum away
    assert twice == WEIGHTS * (3 * BF16 + BF16)


def test_weights_come_twice_and_tables_once():
    table = 128_256 * 2048 + 2048
    both = rows(predicted("optimizer,parameters", batch_size=4))["bus"]["bytes"]
    assert both == BF16 * (2 * (WEIGHTS - table) + table) + BF16 * WEIGHTS


def test_kept_inputs_go_and_come_back():
    """16 inputs of layers, 2,048 tokens of 2,048, with what surrounds them."""
    moved = rows(predicted("activations", recompute="layer"))["bus"]["bytes"]
    inputs = 16 * 2048 * 2048 * BF16
    assert 2 * inputs < moved < 2 * 1.2 * inputs


def test_copies_run_beside_the_computing():
    """On a fast bus they are hidden; on a slow one the step takes as long as they do."""
    alone = archcli.predict("llama-3.2-1b", phase="train", device="rtx-4090", recompute="layer").totals[
        "time_s"
    ]
    fast, slow = (
        predicted("activations", recompute="layer", bus_bandwidth=rate) for rate in ("64GB/s", "0.2GB/s")
    )
    assert fast.totals["time_s"] == pytest.approx(alone)
    moved = rows(slow)["bus"]["bytes"]
    update = archcli.predict("llama-3.2-1b", phase="train", device="rtx-4090", recompute="layer")
    assert slow.totals["time_s"]["floor"] == pytest.approx(
        moved / (0.2 * GB) + rows(update)["update"]["floor_s"], rel=1e-3
    )


def test_rates_of_a_server_must_be_stated():
    asked = {"phase": "train", "device": "8xh100-sxm", "dp": 8, "zero": 3, "offload": "optimizer"}
    with pytest.raises(ArchError, match="are not stated") as raised:
        archcli.predict("llama-3.2-1b", **asked)
    assert "--bus-bandwidth" in raised.value.problems[0].hint
    stated = {"ram_bandwidth": "400GB/s", "bus_bandwidth": "50GB/s"}
    assert archcli.predict("llama-3.2-1b", **asked, **stated).totals["time_s"]["floor"] > 0


def test_short_ram_is_said():
    report = predicted("optimizer", ram="1GiB")
    assert not report.totals["fits"]
    assert "RAM needs 20.7 GiB, has 1.00 GiB" in report.headline
