"""Documents of several processes joined into one report: medians, ranges, what is said of how many.

Times are made up here.
"""

import json
from dataclasses import replace
from statistics import stdev

import pytest

from archcli.measure.passes import checked_pass
from archcli.render import rendered
from archcli.render.data import document
from archcli.wings.running.profile.reports.joined import middle, repeated
from archcli.wings.running.profile.reports.one import profile_of
from conforming import conforms
from measure.profile.test_one import QUIET
from recordings import MODELS, question
from table import every_row

MEMORY = dict.fromkeys(
    ("weights_bytes", "gradients_bytes", "activations_bytes", "cache_bytes", "torch_bytes", "needed_bytes"), 1
)
SIZES = {
    "batch_size": 2,
    "seq_len": 9,
    "past": 0,
    "source_len": None,
    "dtype": "fp32",
    "device": "cpu",
    "attention": "sdpa",
}
INPUTS = {
    "phase": "forward",
    **SIZES,
    "hide_launch": False,
    "compile": False,
    "threads": None,
    "pairs": 3,
    "layers": None,
}


def printed(norm_s=0.05, wall_s=1.0, **changes):
    """What one process prints whose first norm took so long, in passes of so long."""
    timed = tuple(
        one._replace(seconds=norm_s) if one.op_class == "normalization" else one for one in QUIET.timed
    )
    plain = (wall_s, 0.9 * wall_s, 1.1 * wall_s)
    recording = replace(QUIET, timed=timed, plain_s=plain, traced_s=plain, **changes)
    report = profile_of(MODELS["gpt2"], checked_pass(MODELS["gpt2"], question("forward")), recording, INPUTS)
    return json.loads(json.dumps(document(replace(report, totals={**report.totals, "memory": MEMORY}))))


THREE = [printed(0.05), printed(0.09), printed(0.06, wall_s=1.2)]
SHARES = [0.05, 0.09, 0.06 / 1.2]


@every_row(
    ("values", "one"),
    [
        ([3, 3], 3),
        ([1.0, 2.0, 9.0], 2.0),
        ([1, 2], 1),
        ([None, None], None),
        ([None, 4.0], 4.0),
        (["a", "b", "b"], "b"),
        (
            [{"x": 1.0, "y": [1.0, 4.0]}, {"x": 3.0, "y": [2.0, 8.0], "z": "w"}],
            {"x": 2.0, "y": [1.5, 6.0], "z": "w"},
        ),
        ([True, False, True], True),
    ],
)
def test_the_middle_of_what_is_said(values, one):
    assert middle(values) == one


def test_shares_are_medians_with_their_range_and_deviation():
    norm = repeated(THREE, 3).totals["by_class"]["normalization"]
    assert norm["time_share"] == pytest.approx(0.05)
    assert norm["time_share_range"] == pytest.approx([0.05, 0.09])
    assert norm["time_share_sd"] == pytest.approx(stdev(SHARES))
    assert norm["seconds"] == 0.06


def test_the_wall_time_and_the_passes_are_of_all_processes():
    totals = repeated(THREE, 3).totals
    assert (totals["processes"], totals["wall_s"], totals["wall_s_range"]) == (3, 1.0, [1.0, 1.2])
    assert totals["wall_s_sd"] == pytest.approx(stdev([1.0, 1.0, 1.2]))
    assert totals["pairs"] == len(totals["plain_s"]) == len(totals["traced_s"]) == 9
    assert totals["partial"] is False


def test_counts_stay_exact():
    one, all_of_them = THREE[0]["totals"], repeated(THREE, 3).totals
    for key in (
        "matmul_flops",
        "other_flops",
        "executed_flops",
        "bytes",
        "flops_by_class",
        "memory",
        "machine",
    ):
        assert all_of_them[key] == one[key]
    for name, figures in one["by_class"].items():
        for key in ("flops", "executed_flops", "bytes", "flop_share", "byte_share"):
            assert all_of_them["by_class"][name][key] == figures[key]


def test_operators_are_joined_by_their_path():
    rows = {row["path"]: row for row in repeated(THREE, 3).rows}
    assert set(rows) == {row["path"] for row in THREE[0]["rows"]}
    assert rows["layers.*.ffn_norm"]["seconds"] == 0.06
    assert rows["layers.*.ffn_norm"]["time_share_range"] == pytest.approx([0.05, 0.09])


def test_of_fewer_than_asked_the_report_is_partial():
    report = repeated(THREE[:1], 3)
    assert report.totals["partial"] is True
    assert report.notes[:2] == (
        "PARTIAL: interrupted after 1 of 3 processes.",
        "1 process is few: a range of so few says little.",
    )
    assert report.totals["wall_s_sd"] is None


def test_a_note_of_some_says_of_how_many():
    busy = [printed(load=load) for load in (3.5, 4.5, 0.0)]
    notes = repeated(busy, 3).notes
    told = "In 2 of 3 processes: NOT RELIABLE: a busy machine: 3.5 processes a processor when it began; "
    assert any(note.startswith(told) for note in notes)
    assert repeated(busy, 3).totals["warnings"][0].startswith(told)
    assert "Weights are random." in notes


@pytest.mark.parametrize(
    ("walls", "reliable"), [((1.0, 1.0, 5.0), True), ((1.0, 5.0, 5.0), False), ((1.0, 5.0), False)]
)
def test_it_is_as_reliable_as_most_of_them(walls, reliable):
    report = repeated([printed(0.1, wall_s=wall) for wall in walls], len(walls))
    assert report.totals["reliable"] is reliable
    assert ("NOT RELIABLE" in report.tables[0].title) is not reliable


def test_what_differs_anywhere_makes_it_unreliable():
    totals = repeated([printed(0.1), printed(0.1), printed(0.1, differing=("lm_head:mm",))], 3).totals
    assert (totals["reliable"], totals["operations_differing"]) == (False, ["lm_head:mm"])


def lines(report):
    return [line["what"] for line in report.tables[-1].records]


def test_profiles_of_an_older_archcli_are_joined():
    """They said neither what disturbed their passes nor their warnings apart."""
    older = printed()
    del older["totals"]["disturbance"], older["totals"]["warnings"]
    joined = repeated([older] * 3, 3)
    assert joined.totals["warnings"] == []
    assert "processors that other processes kept busy" not in lines(joined)


def test_what_the_framework_does_is_said_as_of_one_process():
    for device, does in (("cpu", "Python, dispatch"), ("cuda", "the device idle")):
        joined = repeated([printed(machine={"device": device})] * 3, 3)
        assert f"framework ({does}, views)" in lines(joined)


def test_times_made_of_small_stacks_are_not_reliable_here():
    joined = repeated([printed(0.1, wall_s=5.0, stacks=("two layers",))] * 3, 3)
    title = "Where the time goes, in 3 processes, extrapolated: NOT RELIABLE HERE, see the notes"
    assert joined.tables[0].title == title


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("form", ["json", "csv", "md", "plain", "table"])
def test_every_format_prints_it(form):
    text = rendered(repeated(THREE, 3, top=2), form)
    assert "normalization" in text
    if form == "json":
        conforms(["profile", "--json"], text)
    elif form != "csv":
        assert "the slowest 2 of" in text
