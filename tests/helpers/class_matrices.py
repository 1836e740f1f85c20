"""The matrices of a class of transformers by their names, and those of the files that it writes.

None of our code takes part: transformers' own conversion, the one that `save_pretrained` runs, gives the
tensors that a file has.
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
NAMED = ("linear", "experts")
"""Kinds whose names patterns are made of."""
PREFIXES = {"model", "layers", "language_model", "text_model"}
"""Steps that nothing is named by."""
TOWER = re.compile(
    r"vi(sion(?!_moe)|sual)|audio|image|protein_encoder|resampler|multi_modal|multimodal|projector|merger|vqmodel|embed_vision"
)
"""Modules of towers, which are not counted with the language model."""


class Matrix(NamedTuple):
    """A matrix: its names in the class and in a file, outputs and inputs.

    `kind`: linear, experts, router, table. `of_head`: it stands beside the base model, in the head of words.
    """

    names: tuple[str, ...]
    out: int
    inputs: int
    kind: str
    of_head: bool = False

    @property
    def name(self) -> str:
        """Its name in the class."""
        return self.names[0]

    @property
    def in_layer(self) -> bool:
        return re.search(r"\.\d+\.", self.name) is not None

    @property
    def of_experts(self) -> bool:
        """Whether it is of experts that are chosen: a stack, or linear layers (Switch's)."""
        return (self.kind == "experts" or ".experts." in self.name) and "shared" not in self.name

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
    in_head = head_of(model)
    tables = {id(it.weight) for it in model.modules() if isinstance(it, nn.Embedding)}
    for name, module in model.named_modules():
        for key, weight in module._parameters.items():
            if weight is not None and id(weight) not in seen and not TOWER.search(name):
                seen.add(id(weight))
                parameter = f"{name}.{key}"
                for stored, shape, held in tensors[parameter]:
                    if held[0] == parameter:
                        # a tensor that holds several parameters goes by the names of all their modules
                        names = (*(it.rpartition(".")[0] for it in held), stored.removesuffix(".weight"))
                        leaves = [it.rpartition(".")[2] for it in held]
                        first = min((n for it, _, _ in tensors[parameter] for n in numbers_of(it)), default=0)
                        for it in _of(module, leaves, names, shape, first):
                            yield it._replace(
                                # a tied head is the table, whichever of the two the class has first
                                kind="table" if id(weight) in tables else it.kind,
                                of_head=not it.in_layer and in_head(it.name),
                            )


def head_of(model):
    """Whether a module, by its name, stands in the head: beside the base model, in the part with the head."""
    head = model.get_output_embeddings()
    if head is None:
        return lambda name: False
    parts = [
        (name, it)
        for name, it in model.named_modules()
        if isinstance(it, transformers.PreTrainedModel) and it.get_output_embeddings() is head
    ]
    # of an encoder and a decoder of other classes the decoder has it
    part, owner = parts[-1]
    inside = f"{part}." if part else ""
    base = f"{inside}{owner.base_model_prefix}."
    return lambda name: name.startswith(inside) and not name.startswith(base)


def numbers_of(name) -> list[int]:
    """The number of the expert that a tensor's name has, if any."""
    return [int(it) for it in re.findall(r"experts\.(\d+)\.", name)]


def _of(module, keys, names, shape, first):
    """The matrices of a tensor that holds a module's parameters of these names, one or several.

    first: the number of the stack's first expert in files (ERNIE 4.5 VL's of images follow those of text).
    """
    key, *_ = keys
    if isinstance(module, nn.Linear | Conv1D) and key == "weight":
        out, inputs = shape if isinstance(module, nn.Linear) else shape[::-1]
        yield Matrix(names, out, inputs, "linear")
    elif isinstance(module, nn.Embedding) and len(shape) == 2:
        yield Matrix(names, *shape, "table")
    elif ROUTER.search(names[0]) and key == "weight" and len(shape) == 2:
        # a second parameter of a module in a file (ERNIE 4.5 VL's gate.weight_1) goes by the class's name
        yield Matrix(tuple(it for it in names if not it.endswith(".weight_1")), *shape, "router")
    elif "expert" in f"{names[0]}{type(module).__name__}".lower():
        yield from _experts(module, keys, names, shape, first)


def _experts(module, keys, names, shape, first):
    """The matrices of a parameter of experts: of each in a file by itself, or taken apart by tools.

    Tools call them as classes of transformers 4 do: `mlp.experts.3.gate_proj`.
    """
    key, *_ = keys
    if hasattr(module, "moe_num_experts"):
        # DBRX stacks experts below one another, and multiplies by the last matrix from the other side
        n, *sizes = module.moe_num_experts, shape[0] // module.moe_num_experts, shape[1]
        shape = (n, *(sizes[::-1] if key == "w2" else sizes))
    if type(module).__name__ in TRANSPOSED and len(shape) == 3:
        shape = (shape[0], shape[2], shape[1])
    *_, name, file = names
    # LongCat's class has entries for experts that compute nothing, which no file has
    numbered = getattr(module, "down_proj", module._parameters[key]).shape[0]
    index, last = [it - first for it in numbers_of(file)], file.rpartition(".")[2]
    if index and len(shape) == 2 and index[0] < numbered:
        apart = BY_ITSELF.get(last, last)
        yield Matrix((name, file, f"{name}.{index[0]}.{apart}"), *shape, "experts")
    elif len(shape) == 3:
        whole = module._parameters[key].numel() == prod(shape)
        fused = whole and (key == "gate_up_proj" or name.endswith("mlp.input_linear"))
        parts = (
            ("gate_proj", "up_proj")
            if fused
            else keys
            if len(keys) > 1
            else (BY_ITSELF.get(key if whole else last, key if whole else last),)
        )
        # the stack is a module where classes of transformers 4 have one, else a parameter, which is none
        file = file if WITH_WEIGHT.search(file) else file.removesuffix(f".{key}").removesuffix(f".{last}")
        for i in range(min(shape[0], numbered)):
            for part in parts:
                by_itself = () if key == "weight" else (f"{name}.{i}.{part}",)
                yield Matrix((name, file, *by_itself), shape[1] // len(parts), shape[2], "experts")


def is_kept(it) -> bool:
    """Whether every method leaves a matrix as it is: tables, heads and routers."""
    return it.kind == "table" or it.has("lm_head") or it.has("embed_out") or bool(ROUTER.search(it.name))


def step_names(held):
    """The steps by which a pattern can name linear layers and experts: leaves and parents."""
    named = [name.split(".") for it in held if it.kind in NAMED for name in it.names]
    return sorted({step for steps in named for step in steps if not step.isdigit()} - PREFIXES)
