"""`build`: an architecture as a torch.nn.Module."""

from __future__ import annotations

import warnings
from typing import Any

from archcli.api.asking.subject import given
from archcli.modules.models.model import Model, ModelLike
from archcli.modules.spec.arguments import AttentionKernel
from archcli.modules.spec.calls import checked
from archcli.modules.stored.dtypes import DtypeName


@checked
def build(
    model: ModelLike, *, device: str = "cpu", dtype: DtypeName = "fp32", attention: AttentionKernel = "sdpa"
) -> Any:
    """A torch.nn.Module with fresh random weights (needs torch).

    `device` is torch's name of one; "meta" allocates nothing. `dtype` is that of the weights. `attention` is
    "sdpa" (torch's fused kernel where it can express the layer) or "eager". `model(tokens)` gives logits
    [B, T, V] of ids [B, T]; `prefill` and `decode` run through a cache that the caller owns. A model that
    reads images or sounds has its towers: `model(tokens, media=[pixels])` with a token of the prompt for each
    vector. Where they cannot be run the language model alone is built, with a warning.

    Example: `sum(w.numel() for w in build("gpt2", device="meta").parameters())` is 124,439,808.
    """
    from archcli.wings.running.runtime import build_model, require_device, weights_dtype

    require_device(device)
    spec = given(model).model
    reason = _why_alone(spec)
    if reason:
        warnings.warn(f"the language model alone is built: {reason}", stacklevel=3)
    towers = bool(spec.towers) and not reason
    width = weights_dtype(dtype)
    return build_model(spec, device=device, dtype=width, attention=attention, towers=towers)


def _why_alone(spec: Model) -> str:
    """The reason to build a multimodal model's language model alone; empty if there is none."""
    if spec.uncounted:
        return f"parts that are not known: {', '.join(spec.uncounted)}"
    if not spec.towers:
        return ""
    from archcli.wings.media.modules.models.media import why_not_run  # of models with towers alone

    return why_not_run(spec)
