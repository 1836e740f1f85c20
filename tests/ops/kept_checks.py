"""What is read off an operation's `run` that its backward keeps, beside what torch saves of one run of it.

Also beside that run: whose storages its outputs are, how wide their elements are, and in which order heads
and tokens lie.
"""

import itertools
from collections import Counter

import torch

from archcli.graph.kept import Call, Execution, New, Out
from archcli.wings.running.runtime.dtypes import DTYPES
from archcli.wings.running.runtime.memory.kept import run_of_op
from archcli.wings.running.runtime.memory.models import WitnessSetting
from archcli.wings.running.runtime.memory.storages import address
from archcli.wings.serving.launches.memory.op_memory import op_memory
from ops.checks import arguments, untrained

SETTINGS = {
    "cuda": WitnessSetting(),
    "cuda-fp32": WitnessSetting("fp32"),
    "cuda-eager": WitnessSetting("bf16", "eager"),
    "cuda-fp32-eager": WitnessSetting("fp32", "eager"),
    "cpu": WitnessSetting(backend="cpu"),
    "cpu-fp32": WitnessSetting("fp32", backend="cpu"),
    "cpu-eager": WitnessSetting("bf16", "eager", "cpu"),
    "cpu-fp32-eager": WitnessSetting("fp32", "eager", "cpu"),
}
WIDE = {("Rotate", 1): torch.float32, ("Rotate", 2): torch.float32}
"""Inputs that are in fp32 whatever the model's dtype."""
IN_CHUNKS = {
    "DeltaScan",
    "DiagonalScan",
    "LinearAttend",
    "MLSTMScan",
    "SelectiveScan",
    "StateScan",
    "WKV",
}
"""Scans: one chunk stands for those like it."""
HEADED = 4
"""Axes of a tensor of heads: [B, T, H, d]."""


def inputs_of(case, setting):
    """The case's inputs on the setting's device; floating-point numbers in its dtype."""
    name, dtype = type(case.op).__name__, DTYPES[setting.dtype]
    return [
        x.to(setting.device, WIDE.get((name, i), dtype) if x.is_floating_point() else x.dtype)
        for i, x in enumerate(arguments(case))
    ]


def asked_of(case, inputs):
    """Which inputs need a gradient, and whether the weights do: every combination, up to three inputs."""
    able = [x.is_floating_point() and i not in untrained(case) for i, x in enumerate(inputs)]
    flowing = [i for i, can in enumerate(able) if can]
    few = range(len(flowing) + 1) if len(flowing) <= 3 else (0, 1, len(flowing))
    chosen = [set(some) for size in few for some in itertools.combinations(flowing, size)]
    has_weights = bool(case.op.weights(*case.inputs)) and case.op.trained([], *case.inputs)
    return [
        (tuple(i in some for i in range(len(inputs))), trained)
        for some in chosen
        for trained in ((True, False) if has_weights else (False,))
    ]


def call_of(op, inputs, setting, needs, *, trained):
    """The call of that run, as a memory tape describes it."""
    backend = "cpu" if setting.backend == "cpu" else "cuda"
    execution = Execution(backend, setting.attention == "sdpa", DTYPES[setting.dtype].itemsize)
    shapes = [tuple(x.shape) for x in inputs]
    trained = trained and bool(op.weights(*shapes))
    widths = tuple(x.element_size() for x in inputs)
    return Call(execution, needs, widths, trained, None, (None,) * len(inputs))


def read(op, call, shapes):
    """What is read off the op's run, as a count of storages."""
    found, new = set(), Counter()
    for kept in op_memory(op, call, shapes).kept:
        if isinstance(kept, New):
            new["new", kept.elements * kept.width] += kept.count
        else:
            found.add(("out" if isinstance(kept, Out) else "in", kept.which))
    return Counter({**dict.fromkeys(found, 1), **new})


def observed(saved):
    """What torch saved, as the same count."""
    return Counter((s.role, s.bytes if s.role == "new" else s.index) for s in saved)


def folded(op, kept):
    """The count; of an operation that goes over its tokens chunk by chunk all new storages as one sum."""
    if type(op).__name__ not in IN_CHUNKS:
        return kept
    own = sum(size * count for (role, size), count in kept.items() if role == "new")
    return Counter({key: count for key, count in kept.items() if key[0] != "new"} | {"new": own})


def in_training_form(op):
    """Whether training takes this form of an operation: not scans token by token, nor with states."""
    scans = type(op).__name__ in IN_CHUNKS
    return not scans or not (op.form == "recurrent" or op.keep)


def differences(case, setting, read=read):
    """Where reading and torch's run differ: by what is asked of it, (ours, torch's)."""
    op, inputs = case.op.in_training(), inputs_of(case, setting)
    shapes = [tuple(x.shape) for x in inputs]
    found = {}
    for needs, trained in asked_of(case, inputs):
        run = run_of_op(op, *inputs, setting=setting, needs=needs, trained=trained)
        call = call_of(op, inputs, setting, needs, trained=trained)
        flows = op.trained(list(needs), *shapes) and (trained or any(needs))
        ours, theirs = (read(op, call, shapes) if flows else Counter()), observed(run.saved)
        if folded(op, ours) != folded(op, theirs):
            found[needs, trained] = (dict(ours - theirs), dict(theirs - ours))
        if not op.is_weight and laid_out(op, call, shapes) != (lies := layout_of(run)):
            found[needs, trained, "layout"] = (laid_out(op, call, shapes), lies)
    return found


def laid_out(op, call, shapes):
    """Of each output as read: the input whose storage it is, bytes of an element, whether heads join."""
    memory, shapes = op_memory(op, call, shapes), op.shape(*shapes)
    shapes = shapes if shapes and isinstance(shapes[0], tuple) else (shapes,)
    own = ["before" if view == -1 else view for view in memory.views]
    return [
        (own[i], layout.width, len(shape) == HEADED and _lies_apart(layout, shape))
        for i, (layout, shape) in enumerate(zip(memory.layouts, shapes, strict=True))
    ]


def _lies_apart(layout, shape):
    """Whether the last two axes join with a copy alone."""
    meta = torch.empty(shape, device="meta")
    return not _joins(meta if layout.strides is None else meta.as_strided(shape, layout.strides))


def layout_of(run):
    """The same, as torch's tensors lie."""
    before, lies = [address(x) for x in run.inputs], []
    for i, out in enumerate(run.outputs):
        above = [address(x) for x in run.outputs[:i]]
        of = before.index(address(out)) if address(out) in before else None
        of = "before" if address(out) in above[-1:] else of
        lies.append((of, out.element_size(), out.ndim == HEADED and not _joins(out)))
    return lies


def _joins(out):
    """Whether the last two axes join without a copy."""
    return address(out.flatten(-2)) == address(out)
