"""The report of a watched program, on recordings made by hand: shares, folded paths, MFU, what to try."""

import pytest

from archcli.wings.running.profile.program.advice import advice
from archcli.wings.running.profile.program.beside import compared_classes
from archcli.wings.running.profile.program.report import program_report
from archcli.wings.running.profile.program.shares import folding
from archcli.wings.running.profile.program.summary import LONGEST, MOST_LINES, summary
from archcli.wings.running.recording.disturbance import Disturbance
from archcli.wings.running.recording.program import (
    LOADER,
    OPTIMIZER,
    OUTSIDE,
    UNPLACED,
    CountedStep,
    PlacedTime,
    ProgramRecording,
)
from archcli.wings.serving.recorded.machine import Ceilings
from table import every_row

MODULES = {
    "h.0": "Block",
    "h.1": "Block",
    "h.0.up": "Linear",
    "h.1.up": "Linear",
    "net.0": "Linear",
    "net.1": "ReLU",
    "head": "Linear",
}
PLACED = (
    PlacedTime("h.0.up", "forward", "addmm", "contraction", 0.2, 2),
    PlacedTime("h.1.up", "forward", "addmm", "contraction", 0.2, 2),
    PlacedTime("head", "backward", "mm", "contraction", 0.4, 4),
    PlacedTime(OPTIMIZER, "optimizer", "add", "elementwise", 0.5, 400),
    PlacedTime(OUTSIDE, "outside", "_log_softmax", "normalization", 0.3, 2),
    PlacedTime(LOADER, "outside", "stack", "movement", 0.1, 2),
)
"""Of two traced steps of a second each."""


def ceilings(dtype, gemm):
    return Ceilings(
        gemm_flops_per_s=gemm, dram_bytes_per_s=1e9, cache_bytes_per_s=1e9, dtype=dtype, measured="now"
    )


PEAKS = {"fp32": ceilings("fp32", 1e9), "bf16": ceilings("bf16", 4e9)}


def recording(placed=PLACED, **more):
    given = {
        "steps": 9,
        "plain_s": (0.8, 1.0),
        "traced_s": (1.0, 1.0),
        "waiting_s": 0.1,
        "modules": MODULES,
        "counted": CountedStep(
            300_000_000,
            5,
            {
                ("h.0.up", "forward", "contraction"): 100_000_000,
                ("h.1.up", "forward", "contraction"): 200_000_000,
            },
            {"fp32": 300_000_000},
            {},
        ),
        "machine": {"device": "cpu"},
        "disturbance": Disturbance(2),
    }
    return ProgramRecording(placed=tuple(placed), **(given | more))


def report(placed=PLACED, peaks=PEAKS, **more):
    return program_report(recording(placed, **more), ["python", "train.py", "a b"], {}, peaks)


def test_shares_of_a_step_add_up():
    totals = report().totals
    assert totals["by_path"] == pytest.approx(
        {
            OPTIMIZER: 0.25,
            "head": 0.2,
            "h.*.up": 0.2,
            OUTSIDE: 0.15,
            LOADER: 0.05 + 0.05,  # its kernel, and waiting
            "(between kernels)": 0.1,
        }
    )
    assert totals["by_class"] == pytest.approx(
        {
            "contraction": 0.4,
            "elementwise": 0.25,
            "normalization": 0.15,
            "movement": 0.05,
            "waiting": 0.05,
            "framework": 0.1,
        }
    )


def test_shares_of_phases_and_totals_are_of_two_seconds():
    totals = report().totals
    assert totals["by_phase"] == pytest.approx(
        {
            "forward": (0.2 + 0.2) / 2,
            "backward": 0.4 / 2,
            "optimizer": 0.5 / 2,
            "outside": (0.3 + 0.1) / 2,
            LOADER: 0.1 / 2,  # waiting alone: its kernel is outside
            "(between kernels)": (2 - 1.7 - 0.1) / 2,
        }
    )
    for name in ("by_class", "by_path", "by_phase"):
        assert sum(totals[name].values()) == pytest.approx(1), name
    assert totals["outside_share"] == pytest.approx(0.3 / 2)
    assert totals["kernel_share"] == pytest.approx((0.2 + 0.2 + 0.4 + 0.5 + 0.3 + 0.1) / 2)
    assert totals["waiting_share"] == pytest.approx(0.1 / 2)
    assert totals["framework_share"] == pytest.approx((2 - 1.7 - 0.1) / 2)
    assert totals["kernels_per_step"] == (2 + 2 + 4 + 400 + 2 + 2) / 2
    # each traced step by the plain one before it: 1 / 0.8 and 1 / 1.0
    assert totals["overhead_ratio"] == pytest.approx((1.25 + 1.0) / 2)


def test_shares_of_rows_are_those_of_the_kernels():
    report_of = report()
    assert sum(row["share"] for row in report_of.rows) == pytest.approx(report_of.totals["kernel_share"])
    head = next(row for row in report_of.rows if row["path"] == "head")
    assert (head["share"], head["seconds"], head["calls"]) == pytest.approx((0.4 / 2, 0.4 / 2, 4 / 2))


def test_mfu_is_of_a_plain_step_and_the_fastest_product():
    totals = report().totals
    # 0.3 GFLOP in 0.9 s, where 1 GFLOP/s is possible
    assert (totals["step_s"], totals["mfu"]) == pytest.approx((0.9, 0.3 / 0.9))
    assert report(peaks={}).totals["mfu"] is None
    assert report(counted=None).totals["matmul_flops"] is None


def test_a_kernel_without_a_place_is_not_attributed():
    lost = PlacedTime(UNPLACED, "backward", "mm", "contraction", 0.3, 1)
    totals = report([*PLACED, lost]).totals
    assert totals["attributed_share"] == pytest.approx(1.7 / 2.0)
    assert report().totals["attributed_share"] == 1


def test_only_modules_of_one_class_are_folded():
    fold = folding(MODULES)
    assert [fold(path) for path in ("h.1.up", "net.0", "head", OUTSIDE)] == [
        "h.*.up",
        "net.0",
        "head",
        OUTSIDE,
    ]
    assert folding(MODULES, 1)("h.1.up") == "h"


def test_a_row_has_its_class_its_flops_and_torchs_operations():
    row = next(row for row in report().rows if row["path"] == "h.*.up")
    assert (row["module"], row["phase"], row["operations"]) == ("Linear", "forward", ["addmm"])
    # 0.4 s and 4 calls in two steps, 0.3 GFLOP in one
    assert (row["seconds"], row["calls"], row["flops"]) == pytest.approx((0.2, 2, 300_000_000))
    assert row["gflops_per_s"] == 1.5


READS = PlacedTime(OUTSIDE, "outside", "_local_scalar_dense", "movement", 0.001, 40)
UPDATES_FUSED = PlacedTime(OPTIMIZER, "optimizer", "_fused_adamw_", "elementwise", 0.5, 2)
WHOLE = "more tokens for each of its steps"
UNUSUAL = {
    "of a step goes by in the data loader": (PLACED, {"waiting_s": 0.5}, "num_workers=4 or more, or a"),
    "of a step goes by in the data loader, which has no workers": (
        PLACED,
        {"waiting_s": 0.5, "loads_itself": True},
        "num_workers=4 or a cheaper transform",
    ),
    "of a step lies between its 206 kernels of 4126 us on average, 200 of them the optimizer's": (
        PLACED,
        {"traced_s": (2.0, 2.0), "optimizers": ("AdamW",)},
        "AdamW(fused=True), larger batches, torch.compile",
    ),
    "of a step lies between its 24 kernels": (
        [*PLACED[:3], READS],
        {"traced_s": (2.0, 2.0)},
        "fewer of its 20 .item()",
    ),
    "of a step is the optimizer, 200 kernels, weight by weight": (PLACED, {"optimizers": ("Muon",)}, WHOLE),
    "of a step is the optimizer, 1 kernels": ([UPDATES_FUSED], {"optimizers": ("AdamW",)}, WHOLE),
    "of a step is outside of modules: _log_softmax": (PLACED, {}, "to run it less often"),
    "of a step casts or moves tensors": (
        [PlacedTime("head", "forward", "_to_copy", "movement", 0.2, 2)],
        {},
        "weights in the dtype",
    ),
    "of a step copies and gathers": (
        [PlacedTime("head", "forward", "cat", "movement", 0.4, 2)],
        {},
        "look for .contiguous()",
    ),
    "of a step is element-wise or normalization, most of it ReLU (30.0%)": (
        [
            PlacedTime("net.1", "forward", "gelu", "elementwise", 0.6, 2),
            PlacedTime("head", "backward", "sum", "normalization", 0.2, 2),
        ],
        {},
        "torch.compile(model)",
    ),
    "of a step draws random numbers": (
        [PlacedTime("head", "forward", "bernoulli", "random", 0.4, 2)],
        {},
        "dropout=0.0",
    ),
    "of a step is attention by products and a softmax apart": (
        [
            PlacedTime("attn", "forward", "bmm", "contraction", 0.2, 4),
            PlacedTime("attn", "forward", "_softmax", "normalization", 0.1, 2),
        ],
        {},
        "torch.nn.functional.scaled_dot_product_attention",
    ),
    "of a step is matrix products in fp32; in bf16 they reach 4.0 times the FLOP/s here": (
        PLACED,
        {},
        "torch.autocast in bf16",
    ),
}
"""What a finding says, a recording in which it is found, and the start of what to try."""


@every_row("what", UNUSUAL)
def test_what_is_unusual_is_found_with_its_figure(what):
    placed, more, attempt = UNUSUAL[what]
    found = [it for it in report(placed, **more).totals["advice"] if it["what"].startswith(what)]
    assert len(found) == 1
    assert 0 < found[0]["figure"] < 1
    assert found[0]["attempt"].startswith(attempt)


def test_bf16_is_tried_where_it_is_faster_here():
    for peaks in ({}, {"fp32": PEAKS["fp32"]}, {**PEAKS, "bf16": ceilings("bf16", 1.2e9)}):
        assert not [it for it in report(peaks=peaks).totals["advice"] if "bf16" in it["what"]]


def test_a_step_of_products_has_nothing_unusual():
    placed = [PlacedTime("head", "forward", "addmm", "contraction", 1.9, 2)]
    more = {"waiting_s": 0.0, "counted": CountedStep(by_dtype={"bf16": 1})}
    assert not advice(recording(placed, **more), report(placed, **more).totals)


def test_a_summary_is_short_whatever_the_program():
    many = [
        PlacedTime(f"layer{i}.{'x' * 300}", "forward", "y" * 300, "contraction", 0.001, 1) for i in range(500)
    ]
    text = summary(report([*PLACED, *many], failure="z" * 500))
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= LONGEST
    assert "python train.py 'a b'" in lines[0]


def test_classes_stand_beside_their_prediction():
    records = compared_classes(
        {"contraction": 0.5, "framework": 0.5}, {"contraction": 0.1, "movement": 0.2}, 1.0
    )
    by_class = {record["class"]: record for record in records}
    assert by_class["contraction"]["measured_over_predicted"] == pytest.approx(5)
    assert by_class["framework"]["predicted_s"] is None
    assert by_class["movement"] == {
        "class": "movement",
        "measured_s": 0.0,
        "predicted_s": 0.2,
        "measured_over_predicted": 0.0,
    }


def test_how_the_program_ended_is_told():
    told = program_report(recording(), ["python"], {}, {}, ended_by="KeyboardInterrupt")
    assert told.notes[0] == "PARTIAL: the program ended by KeyboardInterrupt."
    whole = program_report(recording(complete=True), ["python"], {}, {}, ended_by="ValueError")
    assert whole.notes[0] == "The program ended by ValueError."


def test_a_busy_machine_is_told():
    busy = Disturbance(2, others=1.5, waited_share=0.6)
    assert report(disturbance=busy).notes[1].startswith("NOT RELIABLE: a busy machine: other processes took")
    assert report(disturbance=busy).tables[0].title == "A step: NOT RELIABLE, see the notes"
    assert report().tables[0].title == "A step"


def test_a_heading_shows_the_start_of_code():
    code = "import torch\n" * 100
    name = program_report(recording(), ["python", "-c", code], {}, {}).model["name"]
    assert name.startswith("python -c 'import torch\\nimport torch")
    assert len(name) < 80
