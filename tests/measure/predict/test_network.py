"""All-reduces among machines against published runs of nccl-tests, and what --nodes and --network change."""

import csv
import importlib
import sys

import numpy as np
import pytest

from archcli import memory, predict
from archcli.errors import ArchError
from archcli.wings.serving.api.known_device.known import known_device
from archcli.wings.serving.api.known_device.machines import Machines, network_constants
from archcli.wings.serving.devices.engines import load_speeds
from archcli.wings.serving.predict.communication.collective import GroupOfRanks, LinkPace, NetworkConstants
from own_source import ROOT
from table import every_row

with (ROOT / "benchmarks/measured/network_allreduce.csv").open(encoding="utf-8", newline="") as file:
    RUNS = list(csv.DictReader(file))


@pytest.fixture(scope="module")
def fit_network():
    """The script that fits the constants."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("fit_network")
    sys.path.remove(str(ROOT / "benchmarks"))


def test_the_limit_is_below_every_run(fit_network):
    """In-switch sums reach 1.04 of the link on paper at most: 450 GB/s of H100 at 1 GB."""
    for row in RUNS:
        fabric, reduced = fit_network.exchange(row)
        floor = reduced.bytes / fabric.route(reduced).bytes_per_s
        assert float(row["time_us"]) * 1e-6 >= 0.96 * floor, row


def test_runs_lie_in_the_range_of_the_constants(fit_network):
    """80% by the range of clusters held out; of the constants of all rows more."""
    constants = network_constants()
    ratios = np.array([float(row["time_us"]) * 1e-6 / fit_network.seconds(constants, row) for row in RUNS])
    inside = np.mean((ratios >= constants.low) & (ratios <= constants.high))
    assert inside >= 0.8
    assert 0.9 <= np.median(ratios) <= 1.1


@pytest.mark.long
def test_the_constants_are_those_of_the_script(fit_network):
    written = load_speeds("network")["speeds"]["all_reduce"]
    assert str(written["constants"]["hop_us"]) in fit_network.text(written["fitted"])
    assert written["rows"] == len(RUNS)


def test_the_page_has_the_constants():
    page = " ".join((ROOT / "docs/predict.md").read_text(encoding="utf-8").split())
    fitted, of = load_speeds("network")["speeds"]["all_reduce"], network_constants()
    assert f"latency of {of.near_us:.1f} µs for each doubling of the ranks in a machine" in page
    assert f"{of.hop_us:.1f} µs for each doubling of machines" in page
    assert f"{of.mixed:.1f} times the geometric mean" in page
    assert (
        f"Of clusters held out it is {fitted['error']:.1%} off; 80% take {of.low:.2f} to {of.high:.2f}"
        in page
    )


def test_latency_grows_by_doublings():
    """4 machines of 8: 3 doublings within, 2 between; half of 400 us beside 100 us is 2 x 200 us more."""
    constants = NetworkConstants(2.0, 20.0, 2.0, 0.8, 1.4)
    pace = constants.pace(GroupOfRanks(32), 8)
    assert pace == LinkPace(pytest.approx((3 * 2 + 2 * 20) * 1e-6), 1.0, 2.0)
    assert LinkPace(100e-6, 1.0, 2.0).seconds(1, 400e-6) == pytest.approx((100 + 2 * 200 + 400) * 1e-6)


def sent(device, **options):
    """Seconds of communication of a decoded token, and the links that it takes."""
    report = predict("llama-3.1-70b", device, engine="vllm", **options)
    rows = report.totals["communication"]
    return sum(row["time_s"] for row in rows), {row["link"] for row in rows}


def test_machines_are_slower_than_one():
    """161 all-reduces of 16 kB: those of two machines take a network's latency each."""
    near, far = sent("8xh100-sxm", tp=8), sent("8xh100-sxm", tp=8, nodes=2)
    assert (near[1], far[1]) == ({"link"}, {"network"})
    assert far[0] > 2 * near[0]
    constants = network_constants()
    least = 161 * (2 * constants.near_us + constants.hop_us) * 1e-6  # 4 in each of 2 machines
    assert least < far[0] < 2 * least


def test_a_slower_network_takes_longer():
    rates = ("400Gb/s", "400gbps", "50 GBps", "50GB/s", "10Gb/s")
    *equal, slower = (sent("8xh100-sxm", tp=8, nodes=2, network=rate)[0] for rate in rates)
    assert len({*equal}) == 1
    assert equal[0] < slower


def test_by_the_number_of_a_machine():
    """16 H100 are two machines by their file, and 2 instances of 4 L40S are two machines of 4."""
    assert sent("16xh100-sxm", tp=16)[1] == {"network"}
    known = known_device("2xg6e.12xlarge")
    assert (known.memory.n_devices, known.memory.per_node) == (8, 4)
    two = known_device("p5.48xlarge", machines=Machines(2))
    assert (two.memory.n_devices, two.memory.per_node) == (16, 8)


def test_cards_stay_in_one_machine():
    report = predict("llama-3.1-70b", "16xl20", tp=16, engine="vllm")
    assert {row["link"] for row in report.totals["communication"]} == {"link"}
    assert any("16 cards are taken as in one" in what for what in report.not_modelled)


def test_an_unknown_network_gives_a_limit_alone():
    report = predict("llama-3.1-70b", "16xl20", tp=16, nodes=2, engine="vllm")
    assert (report.totals["not_stated"], report.totals["tokens_per_s"]["expected"]) == ("network", None)
    assert "at most" in report.headline
    assert "network not stated" in report.headline
    assert (report.inputs["devices_per_node"], report.inputs["network_gb_s"]) == (8, None)
    stated = predict("llama-3.1-70b", "16xl20", tp=16, nodes=2, network="200Gb/s", engine="vllm")
    assert stated.inputs["network_gb_s"] == 25
    assert stated.totals["tokens_per_s"]["expected"] < report.totals["tokens_per_s"]["floor"]


def test_the_usual_plan_stays_within_a_machine():
    plan = memory("llama-3.1-70b", "serve", device="8xh100-sxm", nodes=2, seq_len=2048).inputs["plan"]
    assert (plan["tp"], plan["dp"] * plan["pp"]) == (4, 2)


@every_row(
    ("options", "what"),
    [
        ({"nodes": 3}, "--nodes 3 does not spread 16 devices evenly"),
        ({"network": "40b"}, "--network 40b is no rate of 0.01 GB/s or more"),
        ({"network": "fast"}, "--network fast is no rate"),
    ],
)
def test_refused(options, what):
    with pytest.raises(ArchError) as caught:
        predict("gpt2", "16xh100-sxm", **options)
    assert what in str(caught.value)
