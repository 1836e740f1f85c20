"""The matrices of a class of transformers by the names of its modules, and what quantized files hold of them.

None of our code takes part: names and shapes are the class's on meta, bytes those of each layout's tensors.
"""

from __future__ import annotations

import re
import warnings
from copy import deepcopy
from typing import NamedTuple

import torch
import transformers
from torch import nn
from transformers.pytorch_utils import Conv1D

EXPERTS = {"gate_up_proj": ("gate_proj", "up_proj")}
"""A parameter that stacks two matrices of every expert, and what each expert's are called in a file."""
ROUTER = re.compile(
    r"(^|\.)(gate|router|wg|classifier|router\.layer|router\.gate|router_mlp.*|gate\.down_proj)$"
)


class Matrix(NamedTuple):
    """A matrix of a module: its name, outputs and inputs; `kind` linear, experts or table."""

    name: str
    out: int
    inputs: int
    kind: str

    @property
    def in_layer(self) -> bool:
        return re.search(r"\.\d+\.", self.name) is not None

    def has(self, step: str) -> bool:
        """Whether a step of its name is this."""
        return step in self.name.split(".")


def of_family(family):
    """The class's model of a family of the parity table, on meta."""
    theirs = transformers.AutoConfig.for_model(**deepcopy(dict(family.config)))
    cls = getattr(transformers, family.cls)
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        return cls.from_config(theirs) if family.cls.startswith("Auto") else cls(theirs)


def numbers(model) -> int:
    """The parameters of a model, tied ones once."""
    return sum(weight.numel() for weight in model.parameters())


def matrices(model):
    """The matrices of a model, each stored once, each expert apart."""
    seen = set()
    for name, module in model.named_modules():
        for key, weight in module._parameters.items():
            if weight is not None and id(weight) not in seen:
                seen.add(id(weight))
                yield from _of(name, module, key, weight)


def _of(name, module, key, weight):
    if isinstance(module, nn.Linear | Conv1D) and key == "weight":
        out, inputs = weight.shape if isinstance(module, nn.Linear) else weight.shape[::-1]
        yield Matrix(name, out, inputs, "linear")
    elif isinstance(module, nn.Embedding):
        yield Matrix(name, *weight.shape, "table")
    elif weight.ndim == 3 and ("experts" in name.lower() or "Experts" in type(module).__name__):
        n, *sizes = weight.shape
        parts = EXPERTS.get(key, (key,))
        for i in range(n):
            for part in parts:
                yield Matrix(f"{name}.{i}.{part}", sizes[0] // len(parts), sizes[1], "experts")


def one_matrix_each(held):
    """The matrices of a class whose files hold gate and up of an expert as one."""
    gates = {it.name.removesuffix("gate_proj") for it in held if it.name.endswith(".gate_proj")}
    for it in held:
        stem = it.name.rpartition(".")[0] + "."
        if it.kind == "experts" and stem in gates and it.name.endswith(".gate_proj"):
            yield it._replace(out=2 * it.out)
        elif not (it.kind == "experts" and stem in gates and it.name.endswith(".up_proj")):
            yield it


def is_kept(it) -> bool:
    """Whether every method leaves a matrix as it is: tables, heads and routers."""
    return it.kind == "table" or it.has("lm_head") or it.has("embed_out") or bool(ROUTER.search(it.name))


def step_names(held):
    """The steps by which a pattern can name linear layers and experts: leaves and parents."""
    named = [it.name.split(".") for it in held if it.kind == "linear"]
    named += [it.name.split(".")[:-1] for it in held if it.kind == "experts"]
    return sorted({step for steps in named for step in steps if not step.isdigit()} - {"model", "layers"})


def step(name: str) -> str:
    """A regular expression of the modules with a step of this name."""
    return rf"(.*\.)?{name}(\..*)?$"


def compressed(ignore, targets=("Linear",)):
    weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor"}
    groups = {"group_0": {"targets": [*targets], "weights": weights}}
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": groups,
        "ignore": [*ignore, "lm_head"],
    }


def by_row(it, *more):
    """4 bits, a scale of fp16 and a zero point a row; as it is where zero points fill no whole words."""
    if it.out % 8:
        return 2 * it.out * it.inputs
    return -(-it.out * it.inputs // 2) + 2 * it.out + it.out // 2 + sum(more)


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": -1}
METHODS = {
    # name: quantization_config that names a step, bytes of a matrix, and which are packed
    "compressed-ignore": (
        lambda name: compressed([f"re:{step(name)}"]),
        lambda it: it.out * it.inputs + 2,
        lambda it, name: not it.has(name),
    ),
    "compressed-target": (
        lambda name: compressed([], [f"re:{step(name)}"]),
        lambda it: it.out * it.inputs + 2,
        lambda it, name: it.has(name),
    ),
    "bitsandbytes": (
        lambda name: {
            "quant_method": "bitsandbytes",
            "load_in_8bit": True,
            "llm_int8_skip_modules": ["lm_head", name],
        },
        lambda it: it.out * it.inputs + 4 * it.out + 1,
        lambda it, name: not it.has(name) and not it.name.endswith(name),
    ),
    "awq": (
        lambda name: {
            "quant_method": "awq",
            "bits": 4,
            "group_size": -1,
            "modules_to_not_convert": [name],
        },
        by_row,
        lambda it, name: it.in_layer and not it.has(name) and not it.name.endswith(name),
    ),
    "gptq-dynamic": (
        lambda name: {**GPTQ, "dynamic": {f"-:{step(name)}": {}}},
        lambda it: by_row(it, 4 * it.inputs),
        lambda it, name: it.in_layer and not it.has(name),
    ),
    "gptq-only": (
        lambda name: {**GPTQ, "modules_in_block_to_quantize": [[name]]},
        lambda it: by_row(it, 4 * it.inputs),
        lambda it, name: it.in_layer and it.has(name),
    ),
    "modelopt": (
        lambda name: {
            "quant_method": "modelopt",
            "quant_algo": "FP8",
            "ignore": ["lm_head", f"*.{name}", f"*.{name}.*", f"{name}.*"],
        },
        lambda it: it.out * it.inputs + 4 + 4,
        lambda it, name: not it.has(name),
    ),
    "fp8": (
        lambda name: {
            "quant_method": "fp8",
            "weight_block_size": [1, 4],
            "modules_to_not_convert": ["lm_head", name],
        },
        lambda it: it.out * it.inputs + 4 * it.out * -(-it.inputs // 4),
        lambda it, name: not it.has(name) and not it.name.endswith(name),
    ),
}


def stored_bytes(whole, held, method, name):
    """The bytes of a file: all in bf16, but the matrices that this method packs."""
    _, size, packs = METHODS[method]
    return 2 * whole + sum(
        size(it) - 2 * it.out * it.inputs for it in held if not is_kept(it) and packs(it, name)
    )
