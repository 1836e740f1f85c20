"""The matrices of a class of transformers by the names of its modules, and the bytes of each layout."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import NamedTuple

import torch
import transformers
from torch import nn
from transformers.pytorch_utils import Conv1D

EXPERTS = {"gate_up_proj": ("gate_proj", "up_proj")}
"""A parameter that stacks two matrices of every expert, and what each expert's are called in a file."""


class Matrix(NamedTuple):
    """A matrix of a module: its name, outputs and inputs, and whether it is a linear layer, experts or a table."""

    name: str
    out: int
    inputs: int
    kind: str


def of_family(family):
    """The class's model of a family of the parity table, on meta."""
    theirs = transformers.AutoConfig.for_model(**deepcopy(dict(family.config)))
    cls = getattr(transformers, family.cls)
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        return cls.from_config(theirs) if family.cls.startswith("Auto") else cls(theirs)


def matrices(model):
    """The matrices of a model, each stored once, each expert apart."""
    seen = set()
    for name, module in model.named_modules():
        for key, weight in module._parameters.items():
            if weight is None or id(weight) in seen:
                continue
            seen.add(id(weight))
            yield from _of(name, module, key, weight)


def _of(name, module, key, weight):
    if isinstance(module, nn.Linear | Conv1D) and key == "weight":
        out, inputs = weight.shape if isinstance(module, nn.Linear) else weight.shape[::-1]
        yield Matrix(name, out, inputs, "linear")
    elif isinstance(module, nn.Embedding):
        yield Matrix(name, *weight.shape, "table")
    elif type(module).__name__ == "DbrxExpertGLU":
        n = module.moe_num_experts if hasattr(module, "moe_num_experts") else 1
        for i in range(n):
            yield Matrix(f"{name}.{i}.{key}", weight.shape[0] // n, weight.shape[1], "experts")
    elif weight.ndim == 3 and ("experts" in name.lower() or "Experts" in type(module).__name__):
        n, *sizes = weight.shape
        parts = EXPERTS.get(key, (key,))
        for i in range(n):
            for part in parts:
                yield Matrix(f"{name}.{i}.{part}", sizes[0] // len(parts), sizes[1], "experts")
