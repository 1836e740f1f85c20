"""`--against-prediction` on recordings made by hand: what is predicted, and what is said where nothing is."""

import sys

import pytest

from archcli import predict
from archcli.wings.running.api.profiling.program import inputs_of
from archcli.wings.running.api.profiling.program_options import ProgramOptions
from archcli.wings.running.api.profiling.program_prediction import beside_prediction
from archcli.wings.running.profile.program.report import program_report
from archcli.wings.running.recording.disturbance import Disturbance
from archcli.wings.running.recording.program import CountedStep, PlacedTime, ProgramRecording

PLACED = (
    PlacedTime("up", "forward", "addmm", "contraction", 0.5, 2),
    PlacedTime("(optimizer)", "optimizer", "add", "elementwise", 0.25, 2),
)


def beside(device="h100-sxm", **more):
    asked = ProgramOptions(against_prediction="gpt2", device=device)
    given = {"counted": CountedStep(8, by_dtype={"bf16": 8}), "tokens": (2, 64), "optimizers": ("SGD",)}
    recording = ProgramRecording(9, (2.0,), (1.0,), PLACED, **(given | more))
    return beside_prediction(program_report(recording, ["python"], inputs_of(asked), {}), recording, asked)


def test_the_question_is_that_of_the_programs_step():
    prediction = beside().totals["prediction"]
    options = {"phase": "train", "batch_size": 2, "seq_len": 64, "dtype": "bf16", "optimizer": "sgd"}
    there = predict("gpt2", "h100-sxm", compiled=False, **options).totals
    times = there["time_s"]
    seconds = times["floor"] if times["expected"] is None else times["expected"]
    assert prediction["predicted_s"] == seconds
    assert prediction["measured_over_predicted"] == 2.0 / seconds
    by_class = {record["class"]: record for record in prediction["by_class"]}
    # shares of the traced step, of the seconds of a plain one
    assert by_class["contraction"]["measured_s"] == pytest.approx(0.5 * 2.0)
    assert by_class["contraction"]["predicted_s"] == there["by_class"]["contraction"]
    assert sum(record["measured_s"] for record in prediction["by_class"]) == pytest.approx(2.0)


def test_lengths_that_are_not_known_are_asked_for():
    report = beside(tokens=None)
    assert "prediction" not in report.totals
    assert report.notes[-1].endswith("is not known (state them: --batch-size and --seq-len).")


def test_a_python_without_archclis_packages_has_a_report_all_the_same(monkeypatch):
    monkeypatch.setitem(sys.modules, "archcli.wings.serving.api.predict", None)
    report = beside()
    assert "prediction" not in report.totals
    assert "which predictions need" in report.notes[-1]


def test_fewer_threads_than_this_machine_has_are_told(monkeypatch):
    # this machine may have no measured peak
    monkeypatch.setattr(
        "archcli.wings.serving.api.predict.predict", lambda model, _, **more: predict(model, "h100-sxm")
    )
    given = {"machine": {"threads": 1}, "disturbance": Disturbance(2)}
    assert "on 1 of 2 processors" in " ".join(beside(device=None, **given).notes)
    assert "processors" not in " ".join(beside(**given).notes)
