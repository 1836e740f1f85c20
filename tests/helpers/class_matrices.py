"""The matrices of a class of transformers by their names, and what quantized files hold of them.

None of our code takes part. Names and shapes are the class's, and those of its files: transformers' own
conversion, the one that `save_pretrained` runs, gives the tensors that a file has. Bytes are those of each
layout's tensors.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from copy import deepcopy
from math import prod
from typing import NamedTuple

import torch
import transformers
from torch import nn
from transformers.conversion_mapping import get_checkpoint_conversion_mapping, get_model_conversion_mapping
from transformers.core_model_loading import PrefixChange, revert_weight_conversion
from transformers.pytorch_utils import Conv1D

ROUTER = re.compile(
    r"(^|\.)(gate|router|wg|router\.classifier|router\.layer|router\.(gate|proj)|router_mlp.*|gate\.down_proj)$"
)
BY_ITSELF = {"w1": "gate_proj", "w3": "up_proj", "v1": "up_proj", "w2": "down_proj"}
TRANSPOSED = ("AriaExperts", "GptOssExperts", "Llama4TextExperts")
"""Classes that hold stacks of experts as [E, in, out]."""
WITH_WEIGHT = re.compile(r"_linear$|moe\.\w+_proj$")
"""Stacks that a file holds as the `weight` of a module: Granite's and Step 3's."""
PREFIXES = {"model", "layers", "language_model", "text_model"}
"""Steps that nothing is named by."""
TOWER = re.compile(
    r"vi(sion|sual)|audio|image|protein|resampler|multi_modal|multimodal|projector|merger|vqmodel|embed_vision"
)
"""Modules of towers, which are not counted with the language model."""


class Matrix(NamedTuple):
    """A matrix: its names in the class and in a file, outputs and inputs; `kind` linear, experts or table."""

    names: tuple[str, ...]
    out: int
    inputs: int
    kind: str

    @property
    def name(self) -> str:
        """Its name in the class."""
        return self.names[0]

    @property
    def in_layer(self) -> bool:
        return re.search(r"\.\d+\.", self.name) is not None

    def has(self, step: str) -> bool:
        """Whether a step of a name of it is this."""
        return any(step in name.split(".") for name in self.names)

    def ends(self, text: str) -> bool:
        """Whether a name of it ends so."""
        return any(name.endswith(text) for name in self.names)


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


def in_files(model):
    """The tensors of a file by parameters that they hold: {parameter: [(name, shape, parameters)]}.

    Each parameter holds its own number throughout, by which the parts of it are found again.
    """
    order = [name for name, _ in model.named_parameters()]
    filled = {
        name: torch.full(weight.shape, float(i)) for i, (name, weight) in enumerate(model.named_parameters())
    }
    if not get_model_conversion_mapping(model, add_legacy=False):
        # a language model by itself is stored as its wrapper stores it
        mapping = get_checkpoint_conversion_mapping(model.config.model_type.removesuffix("_text"))
        model._weight_conversions = [it for it in mapping or () if not isinstance(it, PrefixChange)] or None
    parts = defaultdict(list)
    for name, tensor in revert_weight_conversion(model, filled).items():
        held = [order[int(i)] for i in tensor.unique()]
        for parameter in held:
            parts[parameter].append((name, tuple(tensor.shape), held))
    return parts


def matrices(model):
    """The matrices of a model's language part, as a file stores them, each once, each expert apart."""
    seen, tensors = set(), in_files(model)
    for name, module in model.named_modules():
        for key, weight in module._parameters.items():
            if weight is not None and id(weight) not in seen and not TOWER.search(name):
                seen.add(id(weight))
                parameter = f"{name}.{key}"
                for stored, shape, held in tensors[parameter]:
                    if held[0] == parameter:
                        # a tensor that holds several parameters goes by the names of all their modules
                        names = (*(it.rpartition(".")[0] for it in held), stored.removesuffix(".weight"))
                        yield from _of(module, key, names, shape)


def _of(module, key, names, shape):
    if isinstance(module, nn.Linear | Conv1D) and key == "weight":
        out, inputs = shape if isinstance(module, nn.Linear) else shape[::-1]
        yield Matrix(names, out, inputs, "linear")
    elif isinstance(module, nn.Embedding) and len(shape) == 2:
        yield Matrix(names, *shape, "table")
    elif "expert" in f"{names[0]}{type(module).__name__}".lower():
        yield from _experts(module, key, names, shape)


def _experts(module, key, names, shape):
    """The matrices of a parameter of experts: of each in a file by itself, or taken apart by tools.

    Tools call them as classes of transformers 4 do: `mlp.experts.3.gate_proj`.
    """
    if hasattr(module, "moe_num_experts"):
        # DBRX stacks experts below one another, and multiplies by the last matrix from the other side
        n, *sizes = module.moe_num_experts, shape[0] // module.moe_num_experts, shape[1]
        shape = (n, *(sizes[::-1] if key == "w2" else sizes))
    if type(module).__name__ in TRANSPOSED and len(shape) == 3:
        shape = (shape[0], shape[2], shape[1])
    *_, name, file = names
    index, last = re.search(r"experts\.(\d+)\.", file), file.rpartition(".")[2]
    if index and len(shape) == 2:
        apart = BY_ITSELF.get(last, last)
        yield Matrix((name, file, f"{name}.{index[1]}.{apart}"), *shape, "experts")
    elif len(shape) == 3:
        whole = module._parameters[key].numel() == prod(shape)
        fused = whole and (key == "gate_up_proj" or name.endswith("mlp.input_linear"))
        parts = (
            ("gate_proj", "up_proj")
            if fused
            else (BY_ITSELF.get(key if whole else last, key if whole else last),)
        )
        # the stack is a module where classes of transformers 4 have one, else a parameter, which is none
        file = file if WITH_WEIGHT.search(file) else file.removesuffix(f".{key}").removesuffix(f".{last}")
        for i in range(shape[0]):
            for part in parts:
                by_itself = () if key == "weight" else (f"{name}.{i}.{part}",)
                yield Matrix((name, file, *by_itself), shape[1] // len(parts), shape[2], "experts")


def is_kept(it) -> bool:
    """Whether every method leaves a matrix as it is: tables, heads and routers."""
    return it.kind == "table" or it.has("lm_head") or it.has("embed_out") or bool(ROUTER.search(it.name))


def step_names(held):
    """The steps by which a pattern can name linear layers and experts: leaves and parents."""
    named = [name.split(".") for it in held if it.kind != "table" for name in it.names]
    return sorted({step for steps in named for step in steps if not step.isdigit()} - PREFIXES)


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
        lambda it, name: not it.has(name) and not it.ends(name),
    ),
    "awq": (
        lambda name: {
            "quant_method": "awq",
            "bits": 4,
            "group_size": -1,
            "modules_to_not_convert": [name],
        },
        by_row,
        lambda it, name: it.in_layer and not it.has(name) and not it.ends(name),
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
        lambda it, name: not it.has(name) and not it.ends(name),
    ),
}


def stored_bytes(plain, held, method, name):
    """The bytes of a file: `plain` ones in bf16, but for the matrices that this method packs."""
    _, size, packs = METHODS[method]
    packed = (it for it in held if not is_kept(it) and packs(it, name))
    return plain + sum(size(it) - 2 * it.out * it.inputs for it in packed)
