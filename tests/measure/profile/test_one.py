"""The report: what it adds up to, what it warns of, and that its FLOPs are those of `archcli flops`.

Times are made up here.
"""

import json
from dataclasses import replace

import pytest

from archcli.measure.flops import count_flops
from archcli.measure.passes import checked_pass
from archcli.render import rendered
from archcli.wings.running.profile.reports.one import profile_of
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.operations import OpTime
from recordings import MODELS, RUNS, question
from table import sampled_rows

FUSED, SOFTMAX = "fused_attention", "normalization"
QUIET = Recording(
    timed=(
        OpTime("layers.0.attention.q_proj", "forward", "addmm", "contraction", 0.3, 1),
        OpTime("layers.1.attention.q_proj", "forward", "addmm", "contraction", 0.3, 1),
        OpTime("layers.0.attention.attend", "forward", "_scaled_dot_product_x", FUSED, 0.1, 1),
        OpTime("layers.1.attention.attend", "forward", "_scaled_dot_product_x", FUSED, 0.1, 1),
        OpTime("layers.0.ffn_norm", "forward", "native_layer_norm", SOFTMAX, 0.05, 1),
        OpTime("", "forward", "arange", "framework", 0.01, 1),
    ),
    ran=(),
    plain_s=(1.0, 0.9, 1.1),
    traced_s=(1.02, 0.93, 1.12),
    framework_s=0.09,
    executed=6,
    counted=6,
    differing=(),
    rejected=0,
    page_faults=0,
    switches_per_s=3.0,
    machine={"device": "cpu"},
)
INPUTS = {"phase": "forward", "dtype": "fp32"}


def report(name="gpt2", phase="forward", recording=QUIET, **options):
    counted = checked_pass(MODELS[name], question(phase))
    return profile_of(MODELS[name], counted, recording, INPUTS | {"phase": phase}, **options)


def test_time_shares_add_up_to_the_plain_wall_time():
    totals = report().totals
    assert totals["wall_s"] == 1.0
    assert sum(each["time_share"] for each in totals["by_class"].values()) == pytest.approx(1.0, abs=1e-12)
    assert totals["by_class"]["framework"]["seconds"] == pytest.approx(0.09 + 0.01)
    assert totals["by_class"]["unattributed"]["seconds"] == pytest.approx(1.0 - 0.6 - 0.2 - 0.05 - 0.1)
    assert totals["attributed_share"] == pytest.approx(0.85)
    assert totals["overhead_ratio"] == pytest.approx(1.02)


def test_what_is_explained_twice_is_shown_as_negative():
    slow = replace(QUIET, timed=(OpTime("lm_head", "forward", "mm", "contraction", 1.2, 1),))
    totals = report(recording=slow).totals
    assert totals["unattributed_share"] == pytest.approx(1.0 - 1.2 - 0.09)
    assert totals["by_class"]["contraction"]["time_share"] == pytest.approx(1.2)


@sampled_rows(("name", "phase"), RUNS, 4)
def test_flops_are_those_of_the_flops_command(name, phase):
    theirs, ours = count_flops(MODELS[name], question(phase)).totals, report(name, phase).totals
    assert ours["flops_by_class"] == theirs["by_class"]
    assert (ours["matmul_flops"], ours["other_flops"]) == (theirs["matmul_flops"], theirs["other_flops"])
    assert (
        sum(each["flops"] for each in ours["by_class"].values())
        == theirs["matmul_flops"] + theirs["other_flops"]
    )
    assert (
        sum(row["flops"] for row in report(name, phase).rows)
        == theirs["matmul_flops"] + theirs["other_flops"]
    )


def test_flop_shares_are_those_of_the_flops_command_where_attention_is_not_fused():
    eager = replace(QUIET, timed=tuple(timed for timed in QUIET.timed if timed.op_class != FUSED))
    theirs = count_flops(MODELS["gpt2"], question("forward")).totals["by_class"]
    ours = report(recording=eager).totals["by_class"]
    assert {name: ours[name]["flop_share"] for name in theirs} == {
        name: flops / sum(theirs.values()) for name, flops in theirs.items()
    }


def test_a_fused_row_counts_as_one_class_with_all_its_parts():
    # 2 layers, batch 2, 4 heads of 8, 9 tokens: 45 causal pairs; 2 d for scores, 2 d for mix, 5 for the
    # softmax
    fused = report().totals["by_class"][FUSED]
    assert fused["flops"] == 2 * 2 * 4 * 45 * (2 * 8 + 2 * 8 + 5)
    assert fused["executed_flops"] == fused["flops"]


def test_masked_fused_attention_executes_every_pair():
    fused = report("windowed").totals["by_class"][FUSED]
    assert fused["flops"] == 2 * 2 * 4 * (15 + 4 * 5) * (2 * 8 + 2 * 8 + 5)
    assert fused["executed_flops"] == 2 * 2 * 4 * 9 * 9 * (2 * 8 + 2 * 8 + 5)


def test_layers_are_folded_and_the_slowest_operator_comes_first():
    rows = report().rows
    assert [row["path"] for row in rows[:3]] == [
        "layers.*.attention.q_proj",
        "layers.*.attention.attend",
        "layers.*.ffn_norm",
    ]
    assert rows[0]["seconds"] == pytest.approx(0.6)
    assert rows[0]["class"] == "contraction"


def test_depth_folds_paths_and_top_cuts_the_table_alone():
    found = report(depth=2, top=1)
    embedding = {"embedding.tokens", "embedding.positions", "embedding.positions_add"}
    assert {row["path"] for row in found.rows} == {"layers.*", "final_norm", "lm_head"} | embedding
    assert len(found.tables[1].records) == 1


WARNINGS = {
    "PARTIAL": replace(QUIET, partial=True),
    "trace and census differ": replace(QUIET, differing=("lm_head:mm",)),
    "Tracing slowed the pass by 50%": replace(QUIET, traced_s=(1.5, 1.35, 1.65)),
    "Operations explain 85%": QUIET,
    "500 involuntary context switches": replace(QUIET, switches_per_s=500.0),
    "a busy machine: 3.5 processes": replace(QUIET, load=3.5),
    "Not measured on a GPU yet": replace(QUIET, machine={"device": "cuda:0"}),
}


@pytest.mark.parametrize(("words", "recording"), WARNINGS.items(), ids=WARNINGS)
def test_a_note_warns(words, recording):
    more = OpTime("lm_head", "forward", "mm", "contraction", 0.08, 1)
    sound = report(recording=replace(QUIET, timed=(*QUIET.timed, more)))
    assert any(words in note for note in report(recording=recording).notes)
    assert not any(words in note for note in sound.notes)
    assert sound.totals["reliable"]


@pytest.mark.parametrize(("wall_s", "reliable"), [(0.80, False), (0.87, True), (1.05, True), (1.10, False)])
def test_the_headline_says_where_passes_disagree(wall_s, reliable):
    found = report(
        recording=replace(QUIET, plain_s=(wall_s,), traced_s=(wall_s,))
    )  # operations and framework took 0.95 s
    assert found.totals["reliable"] is reliable
    assert ("NOT RELIABLE" in found.tables[0].title) is not reliable


@pytest.mark.parametrize("form", ["json", "csv", "md", "plain", "table"])
def test_every_format_prints_it(form):
    printed = rendered(report(), form)
    assert "fused" in printed
    assert "rich" not in printed
    if form == "json":
        assert json.loads(printed)["totals"]["by_class"]["contraction"]["time_share"] == pytest.approx(0.6)
