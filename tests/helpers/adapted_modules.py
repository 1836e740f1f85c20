"""The parameters that peft trains of a class, by its rule, without peft.

As peft 0.21.2 does on transformers 5, checked against it for every family when this was written:
`check_target_module_exists` and `_maybe_include_all_linear_layers` of tuners/tuners_utils.py, and
`_convert_peft_config_moe` of utils/transformers_weight_conversion.py. None of our code takes part.
"""

from __future__ import annotations

from math import prod

from torch import nn
from transformers.conversion_mapping import _MODEL_TO_CONVERSION_PATTERN, get_checkpoint_conversion_mapping
from transformers.pytorch_utils import Conv1D

from class_matrices import TOWER

ALL = "all-linear"
CONVOLUTIONS = nn.Conv1d | nn.Conv2d | nn.Conv3d
EXPERTS = {
    "mixtral": {"gate": "gate.weight", "w1": "gate_up_proj", "w3": "gate_up_proj", "w2": "down_proj"},
    "qwen2_moe": {
        "gate": "gate.weight",
        "gate_proj": "gate_up_proj",
        "up_proj": "gate_up_proj",
        "down_proj": "down_proj",
    },
}
"""The parameters that names of linear layers of transformers 4 have become."""
MAMBA = {"falcon_h1", "mamba", "mamba2", "falcon_mamba", "nemotron_h"}
"""Types whose out_proj and conv1d peft refuses."""


def names_of(model) -> list[str]:
    """Every leaf and parent name of the language part's modules, and the word for all linear layers."""
    names = (name for name, _ in model.named_modules() if not TOWER.search(name))
    return [*sorted({step for name in names for step in name.split(".") if step and not step.isdigit()}), ALL]


def trained(model, target: str, rank: int) -> int | None:
    """The parameters of the language part's adapters of a target by itself; None where peft refuses."""
    kind = model.config.model_type
    pattern = {**_MODEL_TO_CONVERSION_PATTERN, "mixtral": "mixtral"}.get(kind)
    becomes = EXPERTS.get(pattern, {}) if get_checkpoint_conversion_mapping(kind) is not None else {}
    head = model.get_output_embeddings()
    linear = [
        name for name, it in model.named_modules() if isinstance(it, nn.Linear | Conv1D) and it is not head
    ]
    lasts = {name.rpartition(".")[2] for name in linear} | {*becomes} if becomes else set()
    targets = {target} if target != ALL else lasts or {*linear}
    named = targets & {*becomes}
    parameters = {becomes[name] for name in named}
    fused = {name for name, it in becomes.items() if it == "gate_up_proj"}
    if named & fused and not fused <= named:
        return None
    modules = _of_modules(model, targets - named, kind)
    stacks = _of_parameters(model, parameters)
    return None if modules is None or not modules + stacks else rank * (modules + stacks)


def _of_modules(model, targets: set[str], kind: str) -> int | None:
    """Inputs and outputs of the modules of these names; None where one of them is no layer."""
    total = 0
    for name, module in model.named_modules():
        if not any(name == target or name.endswith(f".{target}") for target in targets):
            continue
        if kind in MAMBA and name.endswith((".out_proj", ".conv1d")):
            return None
        if not isinstance(module, nn.Linear | nn.Embedding | Conv1D | CONVOLUTIONS):
            return None
        if isinstance(module, CONVOLUTIONS) and module.groups > 1:
            return None
        total += 0 if TOWER.search(name) else sum(_sizes(module))
    return total


def _sizes(module) -> tuple[int, ...]:
    """The numbers of A and B of rank 1."""
    if isinstance(module, CONVOLUTIONS):
        # A has the kernel, B a kernel of 1
        return module.in_channels * prod(module.kernel_size), module.out_channels
    # a linear layer may hold several blocks as one matrix: DeepSeek-V4's o_a_proj
    return (module.in_features, module.out_features) if isinstance(module, nn.Linear) else module.weight.shape


def _of_parameters(model, parameters: set[str]) -> int:
    """Inputs and outputs of each expert of the parameters of these names; of gate_up_proj twice the rank."""
    total = 0
    for name, weight in model.named_parameters():
        if any(name.endswith(f".{it}") for it in parameters) and not TOWER.search(name):
            *experts, outputs, inputs = weight.shape
            copies = prod(experts) * (2 if name.endswith("gate_up_proj") else 1)
            total += copies * (outputs + inputs)
    return total
