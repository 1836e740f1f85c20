"""Models and inputs without values: a pass as the memory witnesses run it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn

from archcli.modules import Model
from archcli.modules.forms import with_forms
from archcli.modules.model import inferring
from archcli.modules.request import Request
from archcli.runtime.dtypes import DTYPES
from archcli.runtime.memory.cuda_on_meta import cuda_on_meta
from archcli.runtime.model.build import LanguageModel, build_model, empty_inputs, set_expert_form
from archcli.runtime.model.leaves import ON_META


class WitnessSetting(NamedTuple):
    """How a witness runs a model: dtype, attention ("sdpa" for the fused kernel, "eager"), operators.

    `backend` "cuda" runs CUDA's operators on the meta device, "cpu" those of a CPU, on fake tensors in the
    witness of peaks and on real ones elsewhere, "meta" plain meta.
    """

    dtype: str = "bf16"
    attention: str = "sdpa"
    backend: str = "cuda"

    @property
    def device(self) -> str:
        """The device of the tensors."""
        return "cpu" if self.backend == "cpu" else "meta"

    @contextmanager
    def operators(self) -> Iterator[None]:
        """Let torch choose this backend's operators within the block."""
        with cuda_on_meta() if self.backend == "cuda" else nullcontext():
            yield


def built(spec: Model, request: Request, setting: WitnessSetting) -> LanguageModel:
    """The model in the forms of the request, in training or not, experts in their grouped form."""
    train = request.phase == "train"
    formed = with_forms(spec if train else inferring(spec), request)
    model = build_model(
        formed, device=setting.device, dtype=DTYPES[setting.dtype], attention=setting.attention
    )
    set_expert_form(model, ON_META if setting.device == "meta" else "grouped")
    return model.train(train)


def inputs_of(spec: Model, request: Request, setting: WitnessSetting) -> dict[str, torch.Tensor]:
    """The inputs of the pass by name: of shapes alone on meta, ids 0 and features 0 on a CPU."""
    with torch.device(setting.device):
        given = empty_inputs(spec, request)
    features = DTYPES[setting.dtype]
    cast = {name: x if x.dtype == torch.int64 else x.to(features) for name, x in given.items()}
    return {name: x if x.is_meta else x.zero_() for name, x in cast.items()}


def loss_of(logits: Any, targets: torch.Tensor) -> torch.Tensor:
    """The plain loss outside of a model: the cross entropy of logits [B, T, V] in fp32, all at once."""
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
