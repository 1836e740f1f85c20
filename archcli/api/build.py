"""build: an architecture as a module of torch."""

from __future__ import annotations

from typing import Any

from archcli.api.asking.subject import given
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import AttentionKernel, DtypeName
from archcli.modules.spec.calls import checked


@checked
def build(
    model: ModelLike, *, device: str = "cpu", dtype: DtypeName = "fp32", attention: AttentionKernel = "sdpa"
) -> Any:
    """A torch.nn.Module with fresh random weights (needs torch).

    `device` is torch's name of one; "meta" allocates nothing. `dtype` is that of the weights. `attention` is
    "sdpa" (torch's fused kernel where it can express the layer) or "eager". `model(tokens)` gives logits
    [B, T, V] of ids [B, T]; `prefill` and `decode` run through a cache that the caller owns.

    Example: `sum(w.numel() for w in build("gpt2", device="meta").parameters())` is 124,439,808.
    """
    from archcli.runtime import build_model, require_device, weights_dtype

    require_device(device)
    return build_model(given(model).model, device=device, dtype=weights_dtype(dtype), attention=attention)
