"""Towers as torch runs them: the bytes alive at the peak of a pass, and those kept for a backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from weakref import ref

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from archcli.graph import Tensor
from archcli.modules import Tower
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.dtypes import DTYPES, default_dtype
from archcli.wings.running.runtime.memory.models import WitnessSetting, inputs_of, replace_tensors
from archcli.wings.running.runtime.memory.peak import LiveStorages
from archcli.wings.running.runtime.memory.storages import address
from archcli.wings.running.runtime.model.build import BuildTape, LanguageModel, empty_inputs
from archcli.wings.running.runtime.model.node import EAGER, FUSED


@contextmanager
def prepared(
    tower: Tower, request: Request, setting: WitnessSetting
) -> Iterator[tuple[LanguageModel, dict[str, torch.Tensor]]]:
    """The tower and its projector as a tree of nn.Module, and the pixels or spectrogram of the request."""
    model = LanguageModel(tower, EAGER if setting.attention == "eager" else FUSED)
    with default_dtype(DTYPES[setting.dtype]), torch.device("meta"), torch.no_grad():
        tape = BuildTape(model, "", None)
        given = empty_inputs(tower, request)
        tower.forward(**{name: Tensor(tape, value) for name, value in given.items()})
    with ExitStack() as stack:
        if setting.backend == "cpu":
            stack.enter_context(FakeTensorMode())
            replace_tensors(model, lambda x: torch.empty(x.shape, dtype=x.dtype, device="cpu"))
        else:
            stack.enter_context(torch.device("meta"))
        stack.enter_context(setting.operators())
        yield model.train(request.phase == "train"), inputs_of(tower, request, setting)


def inference_peak(tower: Tower, request: Request, setting: WitnessSetting) -> int:
    """The most bytes that were alive at once in a forward, beyond weights and pixels."""
    with prepared(tower, request, setting) as (model, given), torch.no_grad():
        held = [*model.parameters(), *model.buffers(), *given.values()]
        with LiveStorages(held) as live:
            model(**given)
        return live.peak.bytes


def training_peak(tower: Tower, request: Request, setting: WitnessSetting) -> int:
    """The same of a forward and its backward, whose caller holds the output and its gradient."""
    with prepared(tower, request, setting) as (model, given):
        held = [*model.parameters(), *model.buffers(), *given.values()]
        with LiveStorages(held) as live:
            outputs = tree_leaves(model(**given))
            torch.autograd.backward(outputs, [torch.empty_like(out) for out in outputs])
        return live.peak.bytes


class _Packed:
    """A tensor that autograd has saved; it lives as long as the node of the graph that saved it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        # without its own place in the graph, which would keep the node alive
        self.tensor = tensor.detach()


def kept_bytes(tower: Tower, request: Request, setting: WitnessSetting) -> int:
    """Bytes of the storages that autograd still keeps when a training forward has returned its outputs."""
    saved: list[ref[_Packed]] = []

    def pack(tensor: torch.Tensor) -> _Packed:
        packed = _Packed(tensor)
        saved.append(ref(packed))
        return packed

    with prepared(tower, request, setting) as (model, given):
        held = {address(x) for x in (*model.parameters(), *model.buffers(), *given.values())}
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor):
            outputs = model(**given)
        tensors = [packed.tensor for packed in (one() for one in saved) if packed is not None]
        sizes = {address(x): x.untyped_storage().nbytes() for x in tensors if x.ndim}
        del outputs
    return sum(size for key, size in sizes.items() if key not in held)
