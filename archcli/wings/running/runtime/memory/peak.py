"""Peak memory of torch: the most bytes of storages alive at once, and the place in the pass.

A dispatch mode books every storage that an operator of torch returns, and a finalizer takes it off as soon as
nothing refers to it: what an allocator would hand out, without its rounding and its caches, and without the
workspace that a kernel takes within itself.

Traps: a storage's address is used again once it is freed, so that its booking must end with it (the finalizer
is of the storage, which lives as long as any view). What the caller holds stays live: results are returned as
numbers alone. Python frees at once what no cycle holds; the garbage collector is not waited for, as models
built here make no cycles around tensors.

With backend "cpu" these are fake tensors of a CPU. The forward of a model that archcli builds depends on
shapes alone, so that what it makes of them is what it makes of numbers; models whose masks look at values are
another matter. With backend "cuda" they are on meta, with CUDA's operators. They are never of the device
"cuda": under FakeTensorMode without a GPU a backward there ends the process.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.models import (
    Loss,
    WitnessSetting,
    chunked_loss,
    inputs_of,
    loss_of,
    prepared,
    recompute_nodes,
    without_head,
)
from archcli.wings.running.runtime.memory.storages import address, is_of_wrappers, stored_in
from archcli.wings.running.runtime.model.build import Cache, LanguageModel
from archcli.wings.running.runtime.model.op_log import OpLog, op_log

Place = Callable[[], tuple[str, str]]
"""The path of the operation that runs, and the moment: forward, backward, loss, …"""


class LivePeak(NamedTuple):
    """The most bytes live at once, with the moment and the operation's path, "" outside of one.

    `end` is what was live when the pass had ended.
    """

    bytes: int
    moment: str
    path: str
    end: int


class LiveStorages(TorchDispatchMode):
    """Books live storages within the block, except the `excepted`: weights, buffers and inputs."""

    supports_higher_order_operators = True

    def __init__(self, excepted: Iterable[torch.Tensor] = (), place: Place = lambda: ("", "")) -> None:
        super().__init__()
        self._excepted = {address(tensor): tensor.untyped_storage() for tensor in stored_in(list(excepted))}
        self._live: dict[int, int] = {}
        self._place = place
        self.now = 0
        self._peak, self._at = 0, ("", "")

    def reset(self) -> None:
        """Begin the peak anew, with what is live now."""
        self._peak, self._at = self.now, self._place()

    @property
    def peak(self) -> LivePeak:
        """The peak since the last reset."""
        path, moment = self._at
        return LivePeak(self._peak, moment, path, self.now)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if is_of_wrappers(types):
            return NotImplemented  # what they wrap is booked
        out = func(*args, **(kwargs or {}))
        for tensor in stored_in(out):
            self._book(tensor)
        return out

    def _book(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._excepted or key in self._live:
            return
        self._live[key] = storage.nbytes()
        self.now += self._live[key]
        # at exit there is nothing left to book
        weakref.finalize(storage, self._free, key).atexit = False
        if self.now > self._peak:
            self._peak, self._at = self.now, self._place()

    def _free(self, key: int) -> None:
        self.now -= self._live.pop(key)


FAKE_CPU = WitnessSetting(backend="cpu")


def training_step_peak(  # noqa: PLR0913
    spec: Model,
    batch_size: int,
    seq_len: int,
    *,
    setting: WitnessSetting = FAKE_CPU,
    chunks: int | None = None,
    recomputed: Callable[[str], bool] | None = None,
    source_len: int | None = None,
    micro_batches: int = 1,
) -> LivePeak:
    """The peak of a forward, loss and backward beyond weights, buffers, ids and targets; gradients count.

    The loss is the plain one of the model's logits, taken outside, or the model's own; with `chunks` the head
    and the loss run on so many pieces of the tokens, recomputed in the backward. `recomputed` says which
    nodes are run again in the backward, by path ("layers.3"). Of several `micro_batches` each adds its
    gradients to those before. The moments are forward, loss (its own backward included) and backward.

    Example: `training_step_peak(load("gpt2").model, 1, 128).bytes`.
    """
    request = Request("train", batch_size, seq_len, source_len=source_len).resolved()
    with prepared(without_head(spec) if chunks else spec, request, setting) as (model, inputs):
        if recomputed is not None:
            recompute_nodes(model, recomputed)
        extra = []
        loss: Loss = loss_of
        targets = torch.zeros(batch_size, seq_len, dtype=torch.int64)
        if chunks:
            extra = [_head_weight(spec, model)]
            loss = chunked_loss(extra[0], chunks)
        held = [*model.parameters(), *model.buffers(), *inputs.values(), targets, *extra]
        with op_log(model, experts=False) as log, LiveStorages(held, _placed(log)) as live:
            for _ in range(micro_batches):
                out = model(**inputs)
                total = out if "targets" in inputs else loss(out, targets)
                # as a training loop does: a name for the logits would keep them alive through the backward
                del out
                total.backward()
                del total
        return live.peak


def _head_weight(spec: Any, model: LanguageModel) -> torch.Tensor:
    """The matrix of a model built without its head: the table it is tied to, or one of its own."""
    if spec.embedding.tied:
        return model.get_parameter("embedding.tokens.weight")
    table = model.get_parameter("embedding.tokens.weight")
    matrix = torch.empty(spec.vocab_size, spec.d_model, dtype=table.dtype)
    return nn.Parameter(matrix, requires_grad=spec.lora is None or "lm_head" in spec.lora.trained)


def inference_peak(
    spec: Model,
    request: Request,
    *,
    chunk: int | None = None,
    setting: WitnessSetting = FAKE_CPU,
) -> LivePeak:
    """The peak of a pass without a backward beyond weights and ids; the cache counts, also the one before.

    A prefill is in pieces of `chunk` tokens, each with the logits of its last token. The cache before a piece
    lives until the one after it is whole, as the caller owns it: the pieces' peak holds two caches.

    Example: `inference_peak(load("gpt2").model, Request("decode", 1, past=512))`.
    """
    request = request.resolved()
    size = min(chunk or request.seq_len, request.seq_len)
    with prepared(spec, request, setting) as (model, inputs), torch.no_grad():
        tokens = inputs.pop("tokens")
        before = inputs_of(spec, request.filling(), setting) if request.continues else {}
        held = [*model.parameters(), *model.buffers(), tokens, *inputs.values(), *before.values()]
        with op_log(model, experts=False) as log, LiveStorages(held, _placed(log)) as live:
            cache = model.prefill(**before)[1] if request.continues else Cache()
            # filling the cache is no part of the pass, and what it holds is
            live.reset()
            if request.phase == "forward":
                model(tokens, **inputs)
                return live.peak
            for piece in tokens.split(size, 1):
                # the first piece reads the source; later ones find it in the cache
                source = {} if cache.length else inputs
                cache = model.step(piece, cache, last_only=True, **source)[1]
        return live.peak


def _placed(log: OpLog) -> Callable[[], tuple[str, str]]:
    """The current place by the log: an operation's forward, the loss, or a backward."""

    def place() -> tuple[str, str]:
        path, phase = log.place()
        in_loss = not path and log.ran and not _accumulates()
        return path, "loss" if in_loss else phase

    return place


def _accumulates() -> bool:
    """Whether a gradient is being added to a weight's."""
    node = torch._C._current_autograd_node()
    return node is not None and "AccumulateGrad" in node.name()
