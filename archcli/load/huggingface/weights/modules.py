"""Names of modules: what checkpoints and classes of transformers call the module of a matrix."""

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
"""Layers whose names are asked for one by one: a stranger's config may state any number."""
OF_TOWERS = re.compile(
    r"vi(sion|sual)|audio|speech|image|video|sound|tower|projector|connector|merger|talker"
)
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
    names = [*(weights.checkpoint_names(ours, 0) if experts else ()), *weights.checkpoint_names(ours)]
    return [name.removesuffix(".weight").replace("*", "0") for name in names] or [path]


def unmatched(lists: Iterable[Patterns], model: Model, weights: WeightMap) -> list[str]:
    """The entries of these lists that match no module of the model, nor of a part that is not counted here.

    The head is a module, though a tied one is stored with the table.
    """
    lists = [patterns for patterns in lists if patterns.has_idle]
    names = {HEAD, *_all_names(model, weights)} if lists else set()
    entries = (entry for patterns in lists for entry in patterns.unused(names))
    return [entry for entry in dict.fromkeys(entries) if not _is_elsewhere(entry, weights)]


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
                        yield name.rpartition(".")[0] if key == "weight" else name
                        yield name.removesuffix(".weight")


def _is_elsewhere(entry: str, weights: WeightMap) -> bool:
    """Whether an entry is about a tower, or a layer of multi-token prediction, that the file has."""
    if weights.wrapped and OF_TOWERS.search(entry):
        return True
    auxiliary = {name: rule.reason for name, rule in weights.rules.items() if isinstance(rule, Auxiliary)}
    predicted = [name for name, reason in auxiliary.items() if reason.startswith(PREDICTION.split(":")[0])]
    below = [name.removesuffix("**") for name in predicted if name.endswith("**")]
    bare = f"{entry.replace(chr(92), '')}."
    return any(step in bare for step in below) or bool(predicted and OF_PREDICTION.search(entry))


def listed(entries: list[str]) -> str:
    """The first three of these entries, and how many more there are."""
    shown = ", ".join(map(short_repr, entries[:3]))
    more = len(entries) - 3
    return f"{shown} and {more:,} more" if more > 0 else shown
