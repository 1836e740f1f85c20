"""The watch over programs that are odd: several optimizers, threads, modes, modules that are half made."""

import copy
import gc
import io
import sys
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from archcli.wings.running.api.profiling import program
from archcli.wings.running.recording.program import OPTIMIZER, OUTSIDE, Watching
from archcli.wings.running.runtime.program.watch import Watch

STEPS = 4
"""One is left out, one is counted, one is timed and one is traced; a last one follows."""
ONE_PASS = 3 * (2 * 8 * 16 * 16) - 2 * 8 * 16 * 16
"""FLOPs of a linear layer's step, 8 by 16 by 16: the gradient of its input is not asked for."""


@pytest.fixture
def watch():
    torch.manual_seed(0)
    watch = Watch(Watching(warm_up=1, steps=1))
    watch.begin()
    yield watch
    watch.close()
    watch.hooks.remove()
    assert not torch.nn.modules.module._global_forward_pre_hooks


def linear():
    model = nn.Linear(16, 16)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()


def is_whole(recording, found=STEPS):
    assert not recording.failure
    assert (recording.steps, len(recording.traced_s), recording.complete) == (found, 1, True)
    assert {(it.path, it.phase) for it in recording.placed} >= {("Linear", "forward"), ("Linear", "backward")}
    assert recording.counted.matmul_flops == ONE_PASS


def test_a_step_has_all_of_a_critics_between_two_of_its_generator(watch):
    (critic, of_critic), (generator, of_generator) = linear(), linear()
    for _ in range(STEPS + 1):
        for _ in range(3):
            step(critic, of_critic)
        step(generator, of_generator)
    recording = watch.recording()
    assert (recording.steps, recording.failure) == (STEPS + 1, "")
    assert recording.counted.matmul_flops == 4 * ONE_PASS
    assert {"Linear", "Linear#2"} <= {it.path for it in recording.placed}


def test_of_optimizers_that_step_in_turn_the_last_ends_a_step(watch):
    pairs = linear(), linear()
    for _ in range(STEPS + 1):
        for pair in pairs:
            step(*pair)
    recording = watch.recording()
    assert recording.steps == STEPS + 1
    assert recording.counted.matmul_flops == 2 * ONE_PASS


def test_a_program_may_train_in_a_thread(watch):
    def train():
        pair = linear()
        for _ in range(STEPS):
            step(*pair)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    is_whole(watch.recording())


def test_a_thread_may_be_within_a_traced_step_when_the_program_ends(watch):
    reached, over = threading.Event(), threading.Event()

    def train():
        pair = linear()
        for _ in range(3):  # the third one ends where a trace begins
            step(*pair)
        reached.set()
        over.wait(60)
        step(*pair)

    thread = threading.Thread(target=train)
    thread.start()
    assert reached.wait(60)
    recording = watch.recording()
    over.set()
    thread.join()
    assert (recording.steps, recording.traced_s) == (3, ())


def test_optimizers_that_step_within_the_backward_are_found(watch):
    model = nn.Linear(16, 16, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.weight.register_post_accumulate_grad_hook(lambda _: optimizer.step() or optimizer.zero_grad())
    for _ in range(STEPS + 1):
        model(torch.randn(8, 16)).square().mean().backward()
    is_whole(watch.recording(), STEPS + 1)


def test_modes_of_the_program_end_within_a_step_as_they_would(watch):
    pair = linear()
    for _ in range(STEPS):
        with FlopCounterMode(display=False) as counter:
            step(*pair)
        assert counter.get_total_flops() == ONE_PASS
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
    is_whole(watch.recording())


class HalfMade(nn.Linear):
    def __init__(self):  # not its base's
        self.__dict__["width"] = 3


class WithNamesOfItsOwn(nn.Linear):
    def named_modules(self, *_, **__):
        raise ValueError("nobody asks")


def test_modules_that_are_half_made_or_have_names_of_their_own_are_no_matter(watch):
    half = [HalfMade(), nn.Module.__new__(nn.Module)]
    model = nn.Sequential(WithNamesOfItsOwn(16, 16))
    optimizer = torch.optim.SGD([model[0].weight, model[0].bias], lr=0.1)
    for _ in range(STEPS):
        step(model, optimizer)
    recording = watch.recording()
    assert len(half) == 2
    assert not recording.failure
    assert ("0", "forward", "addmm") in {(it.path, it.phase, it.name) for it in recording.placed}


def test_a_scripted_module_is_named(watch):
    model = torch.jit.script(nn.Sequential(nn.Linear(16, 16)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        step(model, optimizer)
    recording = watch.recording()
    assert not recording.failure
    assert recording.counted.matmul_flops == ONE_PASS


def test_what_the_program_drops_is_freed_when_the_watch_is_over(watch):
    model, optimizer = linear()
    for _ in range(STEPS):
        step(model, optimizer)
    dropped = [weakref.ref(it) for it in (model, optimizer, model.weight)]
    del model, optimizer
    gc.collect()
    assert [it() for it in dropped] == [None, None, None]
    is_whole(watch.recording())


def test_a_module_whose_passes_are_steps_is_copied_and_saved_as_ever():
    watch = Watch(Watching(warm_up=1, steps=1, step_on="forward"))
    watch.begin()
    model = nn.Sequential(nn.Linear(16, 16))
    x = torch.randn(8, 16)
    file = io.BytesIO()
    with torch.no_grad():
        for _ in range(STEPS):
            y = model(x)
        torch.save(model, file)
        file.seek(0)
        for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
            assert torch.equal(other(x), y)
    recording = watch.recording()
    watch.hooks.remove()
    assert (recording.steps, recording.complete, recording.failure) == (STEPS, True, "")
    assert {it.path for it in recording.placed if it.name == "addmm"} == {"0"}


@pytest.mark.long
def test_hooks_of_a_watched_step_are_no_reason_for_a_warning(watch):
    model = nn.Sequential(torch.compile(nn.Linear(16, 16), backend="eager"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):  # pytest makes errors of warnings
        step(model, optimizer)
    recording = watch.recording()
    assert not recording.failure
    assert recording.counted.matmul_flops == ONE_PASS
    assert not torch.nn.modules.module._has_any_global_hook()


def test_the_report_does_not_follow_a_program_that_writes_its_errors_elsewhere(capfd, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    program.finish()
    assert sys.stderr.getvalue() == ""
    assert "archcli: nothing was watched" in capfd.readouterr().err


def test_what_an_optimizer_does_beside_its_closures_is_its_own(watch):
    model, _ = linear()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    x = torch.randn(8, 16)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    calls = {(it.path, it.phase, it.name): it.calls for it in watch.recording().placed}
    assert calls["Linear", "forward", "addmm"] == 4
    assert calls[OUTSIDE, "outside", "mse_loss"] == 4
    # its directions: of every iteration but the first the products of two histories
    assert calls[OPTIMIZER, "optimizer", "dot"] >= 4
    assert (OUTSIDE, "outside", "dot") not in calls
