"""The clock around rows: every row that ran is timed, as often as it ran, within the pass.

How the time divides. No figure of time.
"""

from collections import Counter
from contextlib import nullcontext

import pytest

from archcli.measure.passes import checked_pass
from archcli.wings.running.recording.recording import Recording
from archcli.wings.running.runtime.model.op_log import join, op_hooks
from archcli.wings.running.runtime.profile.cross_check import RowTimes, cross_check, self_times, shares
from archcli.wings.running.runtime.profile.work import prepare
from archcli.wings.serving.recorded.operations import CallTime, OpTime
from recordings import MODELS, question


def silent(what, done, total):
    pass


def work_of(name):
    counted = checked_pass(MODELS[name], question("forward"))
    return prepare(MODELS[name], counted.request)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MODELS)
def test_every_row_that_ran_is_timed_as_often_within_the_pass(name):
    work = work_of(name)
    recording, found = cross_check(work, 1, silent)
    calls = Counter()

    def hook_of(path):
        return lambda op, *_: nullcontext(calls.update([join(path, op.name)]))

    with op_hooks(work.model, hook_of):
        work.step()
    assert set(found.seconds) == set(found.ranged) == {ran.path for ran in recording.ran}
    assert found.calls == calls
    assert min(found.seconds.values()) > 0
    assert sum(found.seconds.values()) <= found.clocked_s[0]
    assert not any("op_hook" in vars(module) for module in work.model.modules())


@pytest.mark.long
def test_the_time_of_the_rows_divides_among_the_classes_of_the_profile():
    found = shares(*cross_check(work_of("deepseek"), 2, silent))
    assert sum(each.profile for each in found.values()) == pytest.approx(1.0)
    assert sum(each.ranges for each in found.values()) == pytest.approx(1.0)
    assert sum(each.clock for each in found.values()) == pytest.approx(1.0)
    assert {"contraction", "normalization", "routing"} <= set(found)


def test_a_region_within_another_has_its_own_time():
    log = [(10, "a"), (12, "b"), (15, ""), (20, ""), (30, "b"), (31, "")]
    assert self_times(log) == {"a": CallTime(2 + 5, 1), "b": CallTime(3 + 1, 2)}


def test_a_row_of_several_classes_is_of_a_group_of_its_own():
    timed = (
        OpTime("up", "forward", "mm", "contraction", 3.0, 1),
        OpTime("attend", "forward", "bmm", "contraction", 2.0, 2),
        OpTime("attend", "forward", "_softmax", "normalization", 1.0, 1),
        OpTime("norm", "forward", "native_layer_norm", "normalization", 2.0, 1),
        OpTime("", "forward", "arange", "framework", 5.0, 1),
    )
    recording = Recording(timed, (), (9.0,), (9.0,), 0.0, 5, 5, (), 0, 0, 0.0, {})
    regions = RowTimes(
        {"up": 3.5, "attend": 4.0, "norm": 2.5, "a view": 1.0},
        {},
        (),
        {"up": 4.0, "attend": 4.0, "norm": 8.0},
    )
    assert shares(recording, regions) == {
        "contraction": (3.0 / 8.0, 4.0 / 16.0, 3.5 / 10.0),
        "contraction + normalization": (3.0 / 8.0, 4.0 / 16.0, 4.0 / 10.0),
        "normalization": (2.0 / 8.0, 8.0 / 16.0, 2.5 / 10.0),
    }
