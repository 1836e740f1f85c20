"""LeViT: attention with biases of distances on a grid, batch norms behind every matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Rule, Weights
from archcli.load.huggingface.whole.conv_like import CLASSIFIER, batchnorm, convolution, size_list, stem
from archcli.load.huggingface.whole.vit_like import UNREAD, labels

STEM = 4
"""Convolutions of the stem; each doubles the width."""
COARSER = "Subsample"
LISTS = ("depths", "hidden_sizes", "num_attention_heads", "key_dim", "attention_ratio")
DOWN = 6
"""Entries of a layer between stages: its word, key width, heads, ratios of values and network, stride."""


class LevitStage(NamedTuple):
    """A stage: layers, their width, heads, key width, ratio of values, ratio of networks."""

    depth: int
    width: int
    heads: int
    key: int
    ratio: int
    network: int


def _counts(config: Config, name: str, values: object, least: int = 0) -> list[int]:
    """A list of whole numbers, zero allowed."""
    if not isinstance(values, list | tuple) or not all(
        isinstance(n, int) and not isinstance(n, bool) and n >= least for n in values
    ):
        what = f"{name} must be a list of whole numbers, not {hf.short_repr(values)}"
        raise config.error(what, at=config.place(name))
    return [*values]


def _stages(config: Config) -> list[LevitStage]:
    number = len(size_list(config, "depths"))
    lists = [size_list(config, name, number) for name in LISTS]
    networks = _counts(config, "mlp_ratio", config.get("mlp_ratio"))
    if len(networks) != number:
        what = "mlp_ratio must have an entry for each stage"
        raise config.error(what, at=config.place("mlp_ratio"))
    return [LevitStage(*sizes) for sizes in zip(*lists, networks, strict=True)]


def _between(config: Config, stages: list[LevitStage]) -> list[list[int]]:
    """Key width, heads, ratio of values, of network, and stride of the layer between two stages."""
    # of the file alone: the class derives its default from other keys
    stated, key = config.data.get("down_ops"), stages[0].key
    config.ignore("down_ops")
    if stated is None:
        # two layers, whatever the number of stages
        stated = [[COARSER, key, stage.width // key, 4, 2, 2] for stage in stages[:2]]
    if not isinstance(stated, list | tuple):
        raise config.error("down_ops must be a list", at=config.place("down_ops"))
    found = [[*op] for op in stated if isinstance(op, list | tuple) and op and op[0] == COARSER]
    if len(found) != len(stages) - 1 or any(len(op) != DOWN for op in found):
        what = f"down_ops: {len(found)} layers between {len(stages)} stages are not supported"
        raise config.error(what, f"state {len(stages) - 1}", config.place("down_ops"))
    ops = [_counts(config, "down_ops", op[1:]) for op in found]
    if any(min(op[0], op[1], op[2], op[4]) < 1 for op in ops):
        raise config.error("down_ops: a width of 0 is not supported", at=config.place("down_ops"))
    return ops


def _side(config: Config) -> int:
    """Rows and columns of the first stage's grid by the class's own count."""
    side, patch = config.size("image_size"), config.size("patch_size")
    if side.value < patch.value:
        raise config.error(f"image_size {side} is below patch_size {patch}", at=side.place)
    return side.value // patch.value


def _layer(stage: LevitStage, side: int) -> Mapped:
    attention = {
        "kind": "grid_distances",
        "n_heads": stage.heads,
        "head_dim": stage.key,
        "v_head_dim": stage.ratio * stage.key,
        "side": side,
    }
    ffn = {"ffn": {"kind": "normed_mlp", "d_ff": stage.width * stage.network}} if stage.network else {}
    return {"kind": "unnormed", "mixer": attention, **ffn}


def _groups(config: Config, stages: list[LevitStage]) -> Iterator[Mapped]:
    side, between = _side(config), _between(config, stages)
    for i, stage in enumerate(stages):
        yield {"n_layers": stage.depth, "layer": _layer(stage, side)}
        if i + 1 == len(stages):
            return
        key, heads, ratio, network, stride = between[i]
        wide = stages[i + 1].width
        after = LevitStage(1, wide, heads, key, ratio, network)
        layer = _layer(after, side)
        layer["mixer"] |= {"stride": stride, "out": wide}
        yield {"n_layers": 1, "layer": {**layer, "replaces": True}}
        side = (side - 1) // stride + 1


def _levit(config: Config) -> Mapped:
    """LeViT: the base model, and its classifier of the mean, normalized."""
    config.only_architectures("LevitModel", f"Levit{CLASSIFIER}")
    config.ignore(*UNREAD)
    stages, norm = _stages(config), batchnorm()
    width = stages[0].width
    if width < 1 << (STEM - 1):
        what = f"hidden_sizes: of {width} channels the stem has no eighth"
        raise config.error(what, at=config.place("hidden_sizes"))
    steps = []
    for i in range(STEM):
        step = convolution(
            width >> (STEM - 1 - i),
            config.size("kernel_size").value,
            stride=config.size("stride").value,
            norm=norm,
            activation="hard_swish" if i + 1 < STEM else None,
        )
        steps.append({**step, "padding": config.count("padding").value})
    is_classifier = config.architecture.endswith(CLASSIFIER)
    named = labels(config) if is_classifier else {}
    return {
        "kind": "media_encoder",
        "d_model": width,
        "norm": norm,
        "front_end": stem(config, steps),
        "final_norm": False,
        "pooling": {"kind": "mean", **({"norm": norm} if named else {})},
        **named,
        "groups": [*_groups(config, stages)],
    }


def _unit(theirs: str, ours: str, part: str) -> dict[str, Rule]:
    """Names of a matrix and its norm."""
    return {
        f"{theirs}.linear.weight": f"{ours}.{part}_proj.weight",
        f"{theirs}.batch_norm.*": f"{ours}.{part}_norm.*",
    }


def _network(theirs: str, ours: str) -> dict[str, Rule]:
    return _unit(f"{theirs}.linear_up", f"{ours}.ffn", "up") | _unit(
        f"{theirs}.linear_down", f"{ours}.ffn", "down"
    )


def _names(config: Config) -> Weights:
    """Names of the tensors."""
    base = "[levit.]"
    names: dict[str, Rule] = {
        "classifier.linear.*": "classifier.*",
        "classifier.batch_norm.*": "pooling.norm.*",
    }
    for i in range(STEM):
        theirs = f"{base}patch_embeddings.embedding_layer_{i + 1}"
        names[f"{theirs}.convolution.*"] = f"front_end.steps.{i}.conv.*"
        names[f"{theirs}.batch_norm.*"] = f"front_end.steps.{i}.norm.*"
    stages, number = _stages(config), 0
    between = _between(config, stages)
    for i, stage in enumerate(stages):
        place = 0
        for _ in range(stage.depth):
            theirs, ours = f"{base}encoder.stages.{i}.layers", f"layers.{number}"
            module = f"{theirs}.{place}.module"
            names |= _unit(f"{module}.queries_keys_values", f"{ours}.mixer", "qkv")
            names |= _unit(f"{module}.projection", f"{ours}.mixer", "o")
            names[f"{module}.attention_biases"] = f"{ours}.mixer.distances.weight"
            if stage.network:
                names |= _network(f"{theirs}.{place + 1}.module", ours)
            place, number = place + (2 if stage.network else 1), number + 1
        if i + 1 < len(stages):
            theirs, ours = f"{base}encoder.stages.{i}.layers.{place}", f"layers.{number}"
            for module, part in {"keys_values": "kv", "queries": "q", "projection": "o"}.items():
                names |= _unit(f"{theirs}.{module}", f"{ours}.mixer", part)
            names[f"{theirs}.attention_biases"] = f"{ours}.mixer.distances.weight"
            if between[i][3]:
                names |= _network(f"{base}encoder.stages.{i}.layers.{place + 1}.module", ours)
            number += 1
    return names


FAMILIES = {
    "levit": Family("LeViT: LevitConfig, LevitModel and its classifier.", _levit, _names),
}
