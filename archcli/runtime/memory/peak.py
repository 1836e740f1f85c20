"""Peak: the most bytes beyond the weights that a pass takes, on tensors without values.

With backend "cpu" these are fake tensors of a CPU. The forward of a model that archcli builds depends on
shapes alone, so that what it makes of them is what it makes of numbers; models whose masks look at values are
another matter. With backend "cuda" they are on meta, with CUDA's operators. They are never of the device
"cuda": under FakeTensorMode without a GPU a backward there ends the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.runtime.memory.live import LivePeak, LiveStorages
from archcli.runtime.memory.models import WitnessSetting, inputs_of, loss_of, prepared
from archcli.runtime.memory.recompute import Loss, chunked_loss, recompute_nodes, without_head
from archcli.runtime.model.build import Cache, LanguageModel
from archcli.runtime.model.op_log import OpLog, op_log

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
        given = [*model.parameters(), *model.buffers(), *inputs.values(), targets, *extra]
        with op_log(model, experts=False) as log, LiveStorages(given, _placed(log)) as live:
            for _ in range(micro_batches):
                out = model(**inputs)
                total = out if "targets" in inputs else loss(out, targets)
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
    return nn.Parameter(matrix, requires_grad=spec.lora is None)


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
    with prepared(spec, request, setting) as (model, given), torch.no_grad():
        tokens = given.pop("tokens")
        before = inputs_of(spec, request.filling(), setting) if request.continues else {}
        held = [*model.parameters(), *model.buffers(), tokens, *given.values(), *before.values()]
        with op_log(model, experts=False) as log, LiveStorages(held, _placed(log)) as live:
            cache = model.prefill(**before)[1] if request.continues else Cache()
            live.reset()
            if request.phase == "forward":
                model(tokens, **given)
                return live.peak
            for piece in tokens.split(size, 1):
                source = {} if cache.length else given
                cache = model.step(piece, cache, last_only=True, **source)[1]
        return live.peak


def _placed(log: OpLog) -> Callable[[], tuple[str, str]]:
    """Where torch is, by the log: an operation's forward, the loss after them, or a backward."""

    def place() -> tuple[str, str]:
        path, phase = log.place()
        in_loss = not path and log.ran and not _accumulates()
        return path, "loss" if in_loss else phase

    return place


def _accumulates() -> bool:
    """Whether a gradient is being added to a weight's."""
    node = torch._C._current_autograd_node()
    return node is not None and "AccumulateGrad" in node.name()
