"""Kernels of a pass as archcli traces them, beside what torch dispatches, by row, direction and name."""

from __future__ import annotations

import re
from collections import Counter

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from archcli.graph.kept import Execution
from archcli.wings.running.recording.walk import operation
from archcli.wings.running.runtime.memory.models import WitnessSetting, inputs_of, prepared
from archcli.wings.running.runtime.model.op_log import op_log
from archcli.wings.running.runtime.profile.census import is_view
from archcli.wings.serving.launches.trace import trace_kernels

NO_KERNELS = {
    "_local_scalar_dense",
    "bincount",
    "detach",
    "device",
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "promote_types",
}
"""What torch dispatches without launching anything: memory is reserved, a number read back.

`bincount` launches, but wants values: where tensors have none, the model reserves its result alone.
"""
LAID_OUT_AS_GRADIENT = {"elu_backward", "softplus_backward"}
"""Results that a GPU and a CPU lay out as the gradient, and meta's decompositions as the other input."""
FIRST_TOKENS = "_scaled_dot_product_flash_attention_for_cpu"
"""A CPU lays its result out token by token [B, T, H, e], its shapes alone say so of no single token."""
WIDTHS = {"bf16": 2, "fp32": 4}
PHASES = ["train", "forward", "prefill", "decode"]


def settings_of(*backends):
    """Every dtype and form of attention on these backends, by name."""
    return {
        f"{backend}-{dtype}-{attention}": WitnessSetting(dtype, attention, backend)
        for backend in backends
        for dtype in WIDTHS
        for attention in ("sdpa", "eager")
    }


class _Counted(TorchDispatchMode):
    """Counts torch's operations at the dispatcher by path, phase and name."""

    def __init__(self, log):
        super().__init__()
        self.log, self.calls = log, Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = operation(func._schema.name)
        if not is_view(func):
            self.calls[*self.log.place(), name] += 1
        return as_real_kernels(func, name, args, out)


def as_real_kernels(func, name, args, out):
    """A result without values laid out as real kernels do, where torch's shapes alone do otherwise."""
    if name == FIRST_TOKENS and isinstance(out[0], FakeTensor):
        batch, heads, new, width = out[0].shape
        return out[0].new_empty(batch, new, heads, width).transpose(1, 2), *out[1:]
    if not (isinstance(out, FakeTensor) or getattr(out, "is_meta", False)):
        return out
    if name in LAID_OUT_AS_GRADIENT:
        return torch.empty_like(args[0])
    if name == "view" and isinstance(out, FakeTensor) and 1 in out.shape:
        return out.as_strided(out.shape, _strides_of_view(args[0], out.shape))
    given = [x for x in args if isinstance(x, torch.Tensor)]
    made = torch.Tag.pointwise in func.tags and not any(x is out for x in given)
    # several axes of length 1 may leave it open whether the second axis lies innermost
    plain = made and all(x.shape == out.shape and x.is_contiguous() for x in given)
    if made and not plain and out.dtype == torch.bfloat16 and any(0 in x.stride() for x in given):
        # beside an expanded tensor the order of axes is the other's; of bf16 torch's shapes alone lose it
        wide = func(*[_in_fp32(x) for x in args])
        return out.new_empty_strided(out.shape, wide.stride())
    return out.new_empty(out.shape) if plain else out


def _strides_of_view(x, shape):
    """Those that torch gives a view; a fake tensor has others where an axis has length 1."""
    with unset_fake_temporarily():
        return torch.empty_strided(x.shape, x.stride(), device="meta").view(shape).stride()


def _in_fp32(x):
    """A tensor of bf16 as one of fp32 without values, laid out the same; all else as it is."""
    if not isinstance(x, torch.Tensor) or x.dtype != torch.bfloat16:
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=torch.float32, device=x.device)


def folded(calls):
    """Calls of rows, with any layer of a stack as one.

    A step with a cache makes its positions outside of any row.
    """
    total = Counter()
    for (path, stage, name), n in calls.items():
        row = path or ("positions" if name == "arange" else "")
        if row and name not in NO_KERNELS:
            total[re.sub(r"layers\.\d+", "layers.*", row), stage, name] += n
    return total


def dispatched(spec, request, setting):
    """What torch dispatches in a pass."""
    request, train = request.resolved(), request.phase == "train"
    with prepared(spec, request, setting) as (model, inputs), torch.set_grad_enabled(train):
        if request.continues:
            cache = model.prefill(**inputs_of(spec, request.filling(), setting))[1]
            inputs.update(cache=cache, last_only=request.last_only)
        run = model.step if request.continues else model.prefill if request.caches else model
        with op_log(model) as log, _Counted(log) as counted:
            out = tree_leaves(run(**inputs))
            if train:
                gradients = None if spec.trains_on_targets else [torch.empty_like(x) for x in out]
                torch.autograd.backward(out, gradients)
    return folded(counted.calls)


def traced(spec, request, setting):
    """What archcli says is launched."""
    backend = "cuda" if setting.backend == "cuda" else "cpu"
    execution = Execution(backend, setting.attention == "sdpa", WIDTHS[setting.dtype])
    calls = Counter()
    for run in trace_kernels(spec, request, execution):
        calls[run.path, "backward" if run.stage == "sums" else run.stage, run.kernel.name] += run.times
    return folded(calls)


def differences(spec, request, setting=None):
    """(ours, torch's) number of launches of every kernel where the two differ."""
    setting = setting or WitnessSetting()
    ours, theirs = traced(spec, request, setting), dispatched(spec, request, setting)
    return {key: (ours[key], theirs[key]) for key in sorted({*ours, *theirs}) if ours[key] != theirs[key]}
