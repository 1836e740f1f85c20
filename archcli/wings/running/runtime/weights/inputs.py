"""What both models are given when logits are compared: random ids, a source, images and sounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from archcli.modules import Model

DECODED = 4
"""Steps after the prompt; each is one more pass through all layers."""


class Inputs(NamedTuple):
    """Random ids [B, T] and what an encoder reads besides them, if there is one.

    `media` are the images and sounds of the prompt, each a `Medium` with its pieces; `spec` is then the
    architecture whose towers read them.
    """

    tokens: torch.Tensor
    source: tuple[torch.Tensor, ...]
    media: tuple[tuple[Any, torch.Tensor], ...] = ()
    spec: Model | None = None
