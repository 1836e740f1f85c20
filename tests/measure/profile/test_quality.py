"""Whether a profile is reliable: by recorded passes, quiet and disturbed, and by each sign alone."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from archcli.wings.running.profile.quality import is_disturbed
from archcli.wings.running.recording.disturbance import Disturbance, ProcessorTimes, disturbance
from archcli.wings.running.recording.recording import GpuPasses
from archcli.wings.serving.recorded.operations import OpTime
from measure.profile.test_one import QUIET, report

RECORDED = json.loads((Path(__file__).parents[2] / "recording/fixtures/plain_passes.json").read_text())
SOUND = replace(
    QUIET, timed=(*QUIET.timed, OpTime("lm_head", "forward", "mm", "contraction", 0.08, 1))
)  # operations and framework explain a pass of 1 s


def recorded(name):
    """The sound recording, its passes disturbed as those recorded under this name."""
    passes = [ProcessorTimes(*times) for times in RECORDED[name]["passes"]]
    walls = [times.wall_s for times in passes]
    return replace(SOUND, disturbance=disturbance(passes, walls, RECORDED[name]["processors"]))


def busy_notes(recording):
    return [note for note in report(recording=recording).notes if note.startswith("NOT RELIABLE: ")]


def test_a_pass_beside_busy_processes_is_never_reliable():
    found = report(recording=recorded("beside_others"))
    assert found.totals["reliable"] is False
    [note] = busy_notes(recorded("beside_others"))
    assert note.startswith("NOT RELIABLE: a busy machine: other processes took 1.5 of 2 processors; ")
    assert "threads waited for one 77% of their time" in note
    assert found.totals["warnings"][0] == note
    assert "NOT RELIABLE" in found.tables[0].title


def test_any_three_passes_beside_busy_processes_are_told():
    """Each pass for itself, as passes that look quiet are chosen among others."""
    for times in RECORDED["beside_others"]["passes"]:
        alone = disturbance([ProcessorTimes(*times)], times[:1], 2)
        assert is_disturbed(replace(SOUND, disturbance=alone))


def test_a_quiet_machine_is_reliable_whatever_the_load_was_before():
    found = report(recording=replace(recorded("alone"), load=4.0, switches_per_s=300.0))
    assert found.totals["reliable"] is True
    assert busy_notes(recorded("alone")) == found.totals["warnings"] == []


SIGNS = {
    "processes that let threads wait": Disturbance(8, 1.0, 0.0, 0.2),
    "waiting, where passes are too short for ticks": Disturbance(8, None, None, 0.2),
    "a host that takes the processors": Disturbance(8, 0.0, 0.5, 0.0),
    "passes that scatter": Disturbance(8, 0.0, 0.0, 0.0, 0.4),
    "others, where nothing says who waited": Disturbance(8, 2.5, 0.0, None),
}
NO_SIGNS = {
    "none": Disturbance(8, 0.0, 0.0, 0.0, 0.1),
    "threads that wait for each other": Disturbance(2, 0.01, 0.0, 0.6),
    "others on processors that were free": Disturbance(16, 6.0, 0.0, 0.01),
    "nothing known": Disturbance(),
}


@pytest.mark.parametrize("seen", SIGNS.values(), ids=SIGNS)
def test_each_sign_alone_makes_a_run_unreliable(seen):
    found = report(recording=replace(SOUND, disturbance=seen))
    assert found.totals["reliable"] is False
    assert len(busy_notes(replace(SOUND, disturbance=seen))) == 1


@pytest.mark.parametrize("seen", NO_SIGNS.values(), ids=NO_SIGNS)
def test_what_disturbs_no_pass_is_no_sign(seen):
    found = report(recording=replace(SOUND, disturbance=seen))
    assert found.totals["reliable"] is True
    assert found.totals["warnings"] == []


def test_where_the_system_says_nothing_the_load_does():
    """Plain passes of 0.60 to 0.995 s at a load of 2.8 a processor were once called reliable."""
    assert is_disturbed(replace(SOUND, load=2.8))
    assert is_disturbed(replace(SOUND, switches_per_s=500.0))
    assert not is_disturbed(replace(SOUND, load=0.6, switches_per_s=20.0))


def test_the_scatter_alone_tells_passes_of_six_tenths_to_one_second():
    walls = [0.60, 0.61, 0.70, 0.72, 0.78, 0.85, 0.90, 0.97, 0.98, 0.995]
    assert is_disturbed(replace(SOUND, disturbance=disturbance([ProcessorTimes()] * 10, walls, 2)))


def test_passes_that_scatter_while_nothing_else_runs_are_told_so():
    [note] = busy_notes(replace(SOUND, disturbance=Disturbance(2, 0.0, 0.0, 0.0, 0.4)))
    assert note.startswith("NOT RELIABLE: uneven passes: other processes took 0.0 of 2 processors; ")
    assert note.endswith("The middle half of the plain passes spans 40% of their median. Repeat it.")


@pytest.mark.parametrize(("stolen", "told"), [(0.39, False), (0.41, True)])
def test_what_a_host_took_is_told_where_it_counts(stolen, told):
    """The bound is 0.05 of 8 processors, for the sentence as for the verdict."""
    assert is_disturbed(replace(SOUND, disturbance=Disturbance(8, 0.0, stolen, 0.0))) is told
    [note] = busy_notes(replace(SOUND, disturbance=Disturbance(8, 3.0, stolen, 0.2)))
    assert ("the host of this virtual machine took" in note) is told


def test_a_queue_of_hidden_launches_does_not_wait_for_processors():
    seen = Disturbance(8, 4.0, 0.0, 0.5)
    assert not is_disturbed(replace(SOUND, disturbance=seen, gpu=GpuPasses(hidden=True)))
    assert is_disturbed(replace(SOUND, disturbance=seen, gpu=GpuPasses()))


def test_the_quality_table_has_what_was_seen():
    lines = {line["what"]: line for line in report(recording=recorded("beside_others")).tables[-1].records}
    assert lines["processors that other processes kept busy"]["value"] == "1.53 of 2"
