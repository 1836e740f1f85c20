"""Bytes that an operation says are alive while it runs, beside those that are, on tensors without values."""

from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from archcli.wings.running.runtime.memory.kept import _run
from archcli.wings.running.runtime.memory.peak import LiveStorages
from archcli.wings.running.runtime.memory.storages import address, tensors_in
from archcli.wings.serving.launches.memory.op_reader import OpReader
from ops.kept_checks import call_of, inputs_of


@contextmanager
def watched(inputs, setting, needs):
    """(inputs without values, what is alive beside them) within the block."""
    with ExitStack() as stack:
        if setting.device == "cpu":
            mode = stack.enter_context(FakeTensorMode())
            inputs = [mode.from_tensor(x) for x in inputs]
        inputs = [x.detach().requires_grad_(need) for x, need in zip(inputs, needs, strict=True)]
        stack.enter_context(setting.operators())
        yield inputs, stack.enter_context(LiveStorages(inputs))


def live_while_running(op, inputs, setting, needs):
    """The most bytes alive while an operation without weights runs, less those of its outputs."""
    with torch.set_grad_enabled(any(needs)), watched(inputs, setting, needs) as (given, live):
        outputs = tensors_in(_run(op, None, given, setting, None))
        before = {address(x) for x in given}
        new = {address(x): x.untyped_storage().nbytes() for x in outputs if address(x) not in before}
        return live.peak.bytes - sum(new.values())


def untrained(op):
    """The operation as inference runs it."""
    return replace(op, dropout=0.0) if getattr(op, "dropout", 0.0) else op


def running(case, setting, needs):
    """(ours, those alive) while the case runs: in training where an input needs a gradient."""
    inputs = inputs_of(case, setting)
    op = case.op.in_training() if any(needs) else untrained(case.op)
    call = call_of(op, inputs, setting, needs, trained=False)
    call = call._replace(execution=call.execution._replace(records=any(needs)))
    shapes = [tuple(x.shape) for x in inputs]
    ours = op.space(call, *shapes).running
    ours = OpReader()(op, call, shapes, alive=True).running if ours is None else ours
    return ours, live_while_running(op, inputs, setting, needs)


def backward(case, setting):
    """(ours, those alive) while the case's backward runs, beside what the forward left and all gradients."""
    inputs = inputs_of(case, setting)
    needs = tuple(x.is_floating_point() for x in inputs)
    call = call_of(case.op.in_training(), inputs, setting, needs, trained=False)
    ours = case.op.space(call, *[tuple(x.shape) for x in inputs]).backward
    return ours, live_in_backward(case.op, inputs, setting, needs)


def live_in_backward(op, inputs, setting, needs):
    """The most bytes alive while the backward of one output runs, less those before it and of gradients."""
    with watched(inputs, setting, needs) as (given, live):
        out = _run(op, None, given, setting, None)
        gradient = torch.empty(out.shape, dtype=out.dtype, device=out.device)
        live.reset()
        before = live.now
        made = torch.autograd.grad(out, [x for x in given if x.requires_grad], gradient)
        return live.peak.bytes - before - sum(x.untyped_storage().nbytes() for x in made)
