"""What a key of a config.json may hold, so that its import comes closer to a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from archcli.load.huggingface.parts.rope import stated_rope
from archcli.load.huggingface.registry import listing
from archcli.wings.shapes.export.settings import Leaves, Settings

KINDS_OF_LAYERS = (
    *("full_attention", "sliding_attention", "linear_attention", "chunked_attention", "attention"),
    *("mamba", "mamba2", "conv", "recurrent", "hybrid", "moe", "mlp", "sparse", "dense"),
    *("deepseek_sparse_attention", "indexed_attention", "compressed_sparse_attention"),
    *("heavily_compressed_attention", "cross_attention"),
)
"""What lists of layers call a layer, in all families."""
LISTS_OF_LAYERS = ("layer_types", "block_type")
"""Endings of keys that hold such a list; some importers look whether it is there before they read it."""
ENDINGS = ("ForCausalLM", "ForConditionalGeneration", "ForMaskedLM", "ForPreTraining", "LMHeadModel", "Model")
"""Endings of classes: what stands on the layers."""
SIZES = ("d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "vocab_size")
"""Fields whose values are tried for every number: a key may be left out where it would equal another."""


def words_for_layers(key: str) -> list[str]:
    """The words to try in a list of layers; lists other than `layer_types` have older ones: attention."""
    return sorted(KINDS_OF_LAYERS, key=lambda word: "_" in word and not key.endswith("types"))


def classes(model_type: str) -> list[str]:
    """The classes of a model_type, first those that tests hold."""
    held = listing().get(model_type, {}).get("classes", [])
    stem = next((name.removesuffix(end) for name in held for end in ENDINGS if name.endswith(end)), "Any")
    return list(dict.fromkeys((*held, *(f"{stem}{end}" for end in ENDINGS))))


def numbers(
    value: float | None, lacking: Leaves, ours: Leaves, wanted: Sequence[tuple[str, Any]]
) -> list[Any]:
    """Numbers of the model where the file differs, and the present one in that proportion.

    `wanted` are the settings of the model, `ours` those of the file.
    """
    tried: dict[Any, None] = {}
    for path, number in _numbers(wanted, lacking):
        tried[number] = None
        there = ours.get(path)
        if value and _is_number(there) and there:
            scaled = value * number / there
            tried[int(scaled) if scaled == int(scaled) else scaled] = None
        if number > 0:
            inverse = number**-2
            tried[round(inverse) if abs(inverse - round(inverse)) < 1e-9 * inverse else inverse] = None
    tried.update(dict.fromkeys(it for path, it in wanted if path.split(".")[-1] in SIZES and _is_number(it)))
    if isinstance(value, int):
        tried = dict.fromkeys(int(number) if number == int(number) else number for number in tried)
    return [number for number in tried if number != value]


def _numbers(wanted: Sequence[tuple[str, Any]], lacking: Leaves) -> Iterator[tuple[str, Any]]:
    """(path, number) of what differs."""
    for path, value in wanted:
        if lacking and not (path in lacking or any(it.endswith(f"layers.{path}") for it in lacking)):
            continue
        yield from (
            (path, number)
            for number in (value if isinstance(value, tuple) else (value,))
            if _is_number(number)
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def places(wanted: Settings) -> Iterator[int]:
    """Numbers that say where layers of a kind stand: the first, how many, how far apart, and the last."""
    for path, layers in wanted.stacks.items():
        yield len(layers)
        for kind in wanted.kinds[path]:
            at = [index for index, layer in enumerate(layers) if layer is kind]
            yield from (at[0], len(at), at[-1] + 1, *(b - a for a, b in pairwise(at)))
    yield from (0, 1, 2)


def numbered_layers(wanted: Settings) -> Iterator[list[int]]:
    """Of each kind of layer the numbers of its layers, and a list that has 1 for them."""
    for path, layers in wanted.stacks.items():
        for kind in wanted.kinds[path] if len(wanted.kinds[path]) > 1 else ():
            yield [index for index, layer in enumerate(layers) if layer is kind]
            yield [int(layer is kind) for layer in layers]


def ropes(wanted: Settings) -> list[dict[str, Any]]:
    """The rope parameters of a model's layers in Hugging Face's words; of two kinds also by kind of layer."""
    by_layer: list[dict[str, Any]] = []
    for kinds in wanted.kinds.values():
        for layer in kinds:
            for path in (path for path in layer if path.endswith(".theta")):
                start = path.removesuffix("theta")
                fields = {
                    name.removeprefix(start): value for name, value in layer.items() if name.startswith(start)
                }
                parameters = stated_rope(fields)
                if parameters and parameters not in by_layer:
                    by_layer.append(parameters)
    first_two = by_layer[:2]
    by_kind = [
        dict(zip(("full_attention", "sliding_attention"), order, strict=True))
        for order in (first_two, first_two[::-1])
        if len(order) == len(first_two) > 1
    ]
    return [*by_layer, *by_kind]
