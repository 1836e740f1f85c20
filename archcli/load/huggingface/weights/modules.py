"""Names of modules in checkpoints and transformers' classes, for each matrix of archcli."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from archcli.load.huggingface.config import short_repr
from archcli.load.huggingface.weights.map import Auxiliary, WeightMap
from archcli.load.huggingface.weights.names import PREDICTION
from archcli.load.huggingface.weights.patterns import Patterns
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.trace import outline

MOST_NUMBERED = 4096
"""The most layers to name one by one: a stranger's config may state any number."""
OF_TOWERS = re.compile(
    r"vi(sion|sual)|audio|speech|image|video|sound|tower|projector|connector|merger|resampler|talk|tts|[va]pm"
)
WITHOUT_WEIGHTS = re.compile(r"rotary|act_fn|dropout")
"""Modules without weights."""
OF_PREDICTION = re.compile(r"mtp|nextn|eh_proj|draft")
HEAD = "lm_head"


def module_names(path: str, weights: WeightMap | None, *, experts: bool = False) -> list[str]:
    """The names of the module at a path of archcli, in a layer by its number.

    Of `layers.3.mixer.q_proj` in Qwen 3.5: model.layers.3.linear_attn.in_proj_qkv, and without `model.`. Of
    experts those of the first of them, and of the stack that holds all in one parameter. The path itself
    where no rule names it.
    """
    if weights is None:
        return [path]
    ours = f"{path}.weight"
    apart = [*weights.checkpoint_names(ours, 0)] if experts else []
    names = [name.removesuffix(".weight") for name in (*apart, *weights.checkpoint_names(ours))]
    if experts:
        stacks = [*_stacks(ours, weights)]
        # tools that take a stack apart call the matrices of an expert as classes of transformers 4 do
        names = [name for name in names if name not in stacks]
        modules = [stack.rpartition(".")[0] for stack in stacks]
        # experts that no pass reads have a word before the name: image_gate_proj
        last = re.sub(r"^\w+_(?=(gate|up|down)_proj$)", "", path.rpartition(".")[2])
        names += [f"{module}.0.{last}" for module in modules] + modules
    return [*dict.fromkeys(names)] or [path]


def _stacks(ours: str, weights: WeightMap) -> Iterator[str]:
    """The names of parameters that hold all experts, such as mlp.experts.gate_up_proj: no modules."""
    return (name for name in weights.checkpoint_names(ours) if not name.endswith(".weight"))


def is_module(path: str, weights: WeightMap | None) -> bool:
    """Whether a matrix is the weight of torch's linear layer or table.

    False of a parameter (`attn_hc.fn`), of a convolution's, and of a module of a class of its own.
    """
    names = [*weights.checkpoint_names(f"{path}.weight")] if weights is not None else []
    if weights is None or not names:
        return True
    targets = (weights.find(name) for name in names if name.endswith(".weight"))
    is_plain = any(target is not None and not target.parts.tapped for target in targets)
    return is_plain and not is_of_own_class(path, weights)


def is_of_own_class(path: str, weights: WeightMap | None) -> bool:
    """Whether the module of a matrix is neither torch's linear layer nor its table (I-BERT's QuantLinear)."""
    names = [] if weights is None else [*weights.checkpoint_names(f"{path}.weight")]
    targets = [] if weights is None else map(weights.find, names)
    return any(target is not None and target.parts.linear is False for target in targets)


def is_idle_linear(path: str, weights: WeightMap | None) -> bool:
    """Whether an unread matrix is a linear layer's, not a table's or a parameter."""
    names = [] if weights is None else [*weights.checkpoint_names(f"{path}.weight")]
    targets = [] if weights is None else map(weights.find, names)
    return any(target is not None and target.parts.linear is True for target in targets)


def stored_together(path: str, weights: WeightMap | None, *, experts: bool = False) -> tuple[str, ...]:
    """archcli's names of the matrices in the same tensor of a file, in order."""
    ours = f"{path}.weight"
    if weights is None:
        return (ours,)
    # of experts a file holds each by itself, or a tool that packs them takes their stack apart
    names = weights.checkpoint_names(ours, 0 if experts else None)
    targets = [target for target in map(weights.find, names) if target is not None]
    together = [target.names for target in targets if not target.parts.in_memory]
    # what a class holds apart, published files may hold as one matrix
    return (min if experts else max)(together, key=len, default=(ours,))


def held_together(path: str, weights: WeightMap) -> tuple[str, ...]:
    """archcli's names of the matrices fused with this one in the class, in order."""
    ours = f"{path}.weight"
    targets = [target for target in map(weights.find, weights.checkpoint_names(ours)) if target is not None]
    in_memory = (target.names for target in targets if target.parts.in_memory)
    apart = min((target.names for target in targets), key=len, default=(ours,))
    return next(in_memory, apart)


def unmatched(lists: Iterable[Patterns], model: Model, weights: WeightMap) -> list[str]:
    """The entries of these lists that match no module of the model, counted here or not.

    The head is a module, though a tied one is stored with the table.
    """
    lists = [patterns for patterns in lists if patterns.has_idle]
    names = {HEAD, *_all_names(model, weights)} if lists else set()
    entries = (entry for patterns in lists for entry in patterns.unused(names))
    predicted = _predicted(weights)
    # lists name buffers as well, such as a router's e_score_correction_bias
    leaves = {name.rpartition(".")[2] for name in weights.rules} - {"weight", "bias", *"*#", "**"}
    return [
        entry
        for entry in dict.fromkeys(entries)
        if entry.rpartition(".")[2] not in leaves and not _is_elsewhere(entry, weights, predicted)
    ]


def _all_names(model: Model, weights: WeightMap) -> Iterator[str]:
    """The names of all modules that hold a weight, norms and tables among them."""
    layers = LayerIndex(model)
    for row in outline(model):
        if len(layers.stored_span(row)) > MOST_NUMBERED:
            continue
        for path in layers.stored_paths(row):
            for key in row.weights:
                for nth in (None, 0) if row.experts else (None,):
                    for name in weights.checkpoint_names(f"{path}.{key}", nth):
                        yield from _with_parents(name.removesuffix(".weight"))


def _with_parents(name: str) -> Iterator[str]:
    """The name of a module, and of all modules around it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _predicted(weights: WeightMap) -> list[str]:
    """The names of a file's layers of multi-token prediction, as its rules have them."""
    auxiliary = {name: rule.reason for name, rule in weights.rules.items() if isinstance(rule, Auxiliary)}
    return [name for name, reason in auxiliary.items() if reason.startswith(PREDICTION.split(":")[0])]


def _is_elsewhere(entry: str, weights: WeightMap, predicted: list[str]) -> bool:
    """Whether an entry is about a tower, or about a layer of multi-token prediction, of the file."""
    if WITHOUT_WEIGHTS.search(entry) or (weights.wrapped and OF_TOWERS.search(entry)):
        return True
    bare = f"{entry.replace(chr(92), '').rstrip('.*$')}."
    below = (name.removesuffix("**") for name in predicted if name.endswith("**"))
    return any(step in bare for step in below) or bool(predicted and OF_PREDICTION.search(entry))


def listed(entries: list[str]) -> str:
    """The first three of these entries, and how many more there are."""
    shown = ", ".join(map(short_repr, entries[:3]))
    more = len(entries) - 3
    return f"{shown} and {more:,} more" if more > 0 else shown
