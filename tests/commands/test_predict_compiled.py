"""`archcli predict --compile`: fewer kernels that move less, the rows that each holds, what is refused."""

import json

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.left_out import (
    OF_EXPERTS,
    OF_LOOPS,
    OF_RECOMPUTED,
    OF_SCANS,
    OF_SINGLE_KERNELS,
)
from archcli.wings.serving.predict.rank.kernels import compiled_runs, rank_kernels
from archcli.wings.serving.predict.rank.planned import planned_pass
from archcli.wings.serving.recorded.operations import JOIN

ACROSS = "layers.0.ffn_residual + layers.0.attention_norm"
STAGES = ("forward", "recomputed", "backward", "update")
ASKED = ("predict", "gpt2", "--device", "h100-sxm", "-s", "64")


def predicted(cli, *args):
    done = cli(*ASKED, *args, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("phase", ["prefill", "train"])
def test_a_compiled_pass_moves_less_and_launches_less(cli, phase):
    alone = () if phase == "train" else ("--engine", "none")
    eager, compiled = (predicted(cli, "--phase", phase, *alone, *more) for more in ((), ("--compile",)))
    for what in ("times", "bytes"):
        assert sum(row[what] for row in compiled["rows"]) < sum(row[what] for row in eager["rows"])
    assert compiled["totals"]["time_s"]["expected"] < eager["totals"]["time_s"]["expected"]
    held = {path for row in compiled["rows"] for path in row["path"].split(JOIN)}
    assert held <= {row["path"] for row in eager["rows"]}
    assert {OF_SINGLE_KERNELS, OF_LOOPS} <= set(compiled["not_modelled"])
    assert not {OF_EXPERTS, OF_SCANS} & set(compiled["not_modelled"])
    assert (OF_RECOMPUTED in compiled["not_modelled"]) is (phase == "train")
    assert compiled["inputs"]["compiled"] is True


def test_experts_are_said_to_be_fused_otherwise():
    found = archcli.predict("granite-3.0-1b-a400m", "h100-sxm", "prefill", seq_len=16, compiled=True)
    assert OF_EXPERTS in found.to_dict()["not_modelled"]


def test_scans_are_said_to_be_fused_otherwise():
    report = archcli.predict("mamba-130m", "h100-sxm", "prefill", seq_len=16, compiled=True)
    assert OF_SCANS in report.to_dict()["not_modelled"]


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("plan", [{"dp": 2, "zero": 3}, {"tp": 2}, {"tp": 2, "sp": True}], ids=str)
def test_a_rank_of_several_devices_is_compiled_as_one_device_is(plan):
    """Fewer launches and bytes, the same products, and the same collectives."""
    eager, compiled = (
        archcli.predict("gpt2", "2xh100-sxm", "train", seq_len=64, compiled=on, plan=plan)
        for on in (False, True)
    )
    assert compiled.totals["time_s"]["expected"] < eager.totals["time_s"]["expected"]
    assert compiled.totals["time_s"]["floor"] <= eager.totals["time_s"]["floor"]
    products = [
        sum(row["flops"] for row in found.rows if row["class"] == "contraction")
        for found in (eager, compiled)
    ]
    assert products[0] == pytest.approx(products[1])
    sent = [found.totals["communication"] for found in (eager, compiled)]
    assert [one["bytes"] for one in sent[0]] == [one["bytes"] for one in sent[1]]


def test_recomputed_layers_run_their_compiled_forward_again():
    """Llama 3.2 1B: all but the last product of each layer, which keeps its input alone."""
    none, layer = (
        archcli.predict("llama-3.2-1b", "h100-sxm", "train", seq_len=512, compiled=True, recompute=recompute)
        for recompute in ("none", "layer")
    )
    stages = [
        {stage: [row for row in report.rows if row["stage"] == stage] for stage in STAGES}
        for report in (none, layer)
    ]
    assert not stages[0]["recomputed"]
    for same in ("forward", "backward", "update"):
        assert stages[0][same] == stages[1][same]
    again = stages[1]["recomputed"]
    weights = 2 * 2048 * 2048 + 2 * 2048 * 512 + 2 * 2048 * 8192  # q, o; k, v; gate, up
    attention = 2 * 2 * 32 * 64 * 512 * 513 // 2
    assert sum(row["flops"] for row in again if row["class"] in {"contraction", "fused_attention"}) == 16 * (
        2 * 512 * weights + attention
    )
    alike = {tuple(row[key] for key in ("path", "kernel", "times", "bytes")) for row in stages[1]["forward"]}
    assert {tuple(row[key] for key in ("path", "kernel", "times", "bytes")) for row in again} <= alike
    more = layer.totals["time_s"]["floor"] - none.totals["time_s"]["floor"]
    assert more == pytest.approx(sum(row["floor_s"] for row in again))


def test_stages_share_the_kernels_of_compiled_layers():
    """Of 16 layers each joins the next in 15 kernels; all stages together run them as one device does."""
    model, settings = load("llama-3.2-1b", []).model, MemorySettings(seq_len=64)
    plan = Plan(pp=4, micro_batches=4)
    planned = planned_pass(model, settings, plan)
    runs = compiled_runs(planned, settings)
    rank = rank_kernels(planned, settings, plan, runs=runs)
    shared = [[run.times for run in rank.of_stage(stage)] for stage in planned.stages(plan)]
    assert sum(map(sum, shared)) == pytest.approx(sum(run.times for run in runs) + 1)  # and the loss
    joined = [
        sum(
            run.times
            for run in rank.of_stage(stage)
            if run.path.startswith(ACROSS) and run.stage == "forward"
        )
        for stage in planned.stages(plan)
    ]
    assert sum(joined) == pytest.approx(15)
    assert all(3 <= times <= 5 for times in joined)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"engine": "vllm"}, "not of an engine"),
        ({"phase": "serve"}, "not of an engine"),
        ({"fit": "time"}, "does not compare compiled"),
    ],
)
def test_what_is_not_predicted_of_a_compiled_pass(options, reason):
    with pytest.raises(ArchError, match=reason):
        archcli.predict("gpt2", **{"device": "h100-sxm", "compiled": True, **options})
