"""Differences of architectures: their settings by full path, and figures for one request.

A path means the same in all architectures if their layers lie in groups of one layout. If they do not,
`layers.*` stands for all layers of a stack, and a setting says how many layers have which value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.errors import format_setting
from archcli.graph import Row
from archcli.measure.passes import Pass, cache_pass, count_pass
from archcli.measure.report import Unit
from archcli.measure.survey.attributes import architecture_of, format_tally, tally
from archcli.measure.survey.columns import COLUMNS, describe_architecture
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules import Block, Group, Mixer, Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.models.stack import stacks
from archcli.modules.spec.base import Spec
from archcli.modules.spec.kinds import kind_of
from archcli.modules.spec.request import Request
from archcli.modules.stored.formats import FORMATS, cache_bytes

IDENTITY = {"name", "source", "published", "released", "series", "sibling_of"}
"""Keys that name a model, and do not describe it."""

LACKING = ("false", "null", "none", None)
"""Values of settings that a module does without."""

MOST_SAID = 3
"""The most fields that are said of a module."""

ABSENT = None
"""The value of a setting that a model has no field for."""

# encoder.groups.0.pattern.1.attention.n_heads: stem encoder., rest attention.n_heads; no rest for n_layers
IN_GROUPS = re.compile(r"(?P<stem>.*?)groups\.\d+\.(?:(?:layer|pattern\.\d+)\.(?P<rest>.+)|.+)")


class ModelSettings(NamedTuple):
    """An architecture and its YAML mapping without defaults."""

    model: Model
    mapping: Mapping[str, Any]


class Difference(NamedTuple):
    """A setting and its value in each architecture.

    Values are written as in YAML; None where an architecture has no such setting.
    """

    path: str
    values: tuple[str | None, ...]


def differences(models: Sequence[ModelSettings]) -> list[Difference]:
    """Every setting that some model states and that differs between the models."""
    written = (path for settings in models for path in _written(settings))
    paths = _in_order(path for path in written if path.split(".")[0] not in IDENTITY)
    if aligned([settings.model for settings in models]):
        listed = [_of_models(path, models) for path in paths]
    else:
        listed = [*_outside(paths, models), *_of_layers(paths, models)]
    return [setting for setting in listed if len(set(setting.values)) > 1]


def aligned(models: Sequence[Model]) -> bool:
    """Whether all models divide their layers into groups in the same way."""
    return len({_layout(model) for model in models}) == 1


def _layout(model: Model) -> tuple[Any, ...]:
    """By stack, the pattern length of each of its groups."""
    return tuple(
        (stem, *((group.layer is None, len(group.blocks)) for group in stack.groups))
        for stem, stack in stacks(model)
    )


def _written(settings: ModelSettings) -> Iterator[str]:
    """The paths of all values in a mapping; a kind in short form has the path of its `kind`."""
    for path in _leaves(settings.mapping, ""):
        value = _value(settings.model, path)
        # a leaf of the YAML that is a spec in the model is a kind written as a bare name
        yield f"{path}.kind" if "kind" in _fields_of(value) else path


def _in_order(paths: Iterable[str]) -> list[str]:
    """The distinct paths grouped by key, keys in order of first appearance."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for step in path.split("."):
            node = node.setdefault(step, {})
    return [path for path in _leaves(tree, "") if path]


def _leaves(node: Any, path: str) -> Iterator[str]:
    items = node.items() if isinstance(node, Mapping) else enumerate(node) if _is_branch(node) else ()
    for key, item in items:
        yield from _leaves(item, f"{path}.{key}" if path else str(key))
    if not items:
        yield path


def _is_branch(node: Any) -> bool:
    return isinstance(node, list) and any(isinstance(item, Mapping) for item in node)


# no None, which is a value of a setting, such as that of a window
_NO_PLACE = object()


def _fields_of(value: Any) -> Collection[str]:
    """The names of a spec's fields; none of a plain value."""
    # what stands at a path may be a number, a list or a module
    return value.fields if isinstance(value, Spec) else ()


def _value(part: Any, path: str, d_model: int | None = None) -> Any:
    """The value at a path of a spec, or _NO_PLACE; `d_model` resolves a default head width."""
    for step in path.split("."):
        above = part
        if isinstance(part, tuple) and step.isdecimal():
            part = part[int(step)] if int(step) < len(part) else _NO_PLACE
        elif isinstance(part, Mapping):
            part = part.get(step, _NO_PLACE)
        else:
            # only a spec has fields: a path of the YAML of another model may go on below a plain value here
            part = getattr(part, step) if step in _fields_of(part) else _NO_PLACE
        # only a mixer can say the width of its heads where none is stated
        if part is None and step == "head_dim" and d_model is not None and isinstance(above, Mixer):
            part = above.facts(d_model).head_dim
    return part


def _format(value: Any) -> str | None:
    if value is _NO_PLACE:
        return ABSENT
    # of a spec only the kind is shown: each of its fields has a path, and so a row
    return (kind_of(value) or "{}") if isinstance(value, Spec) else format_setting(value)


def _of_models(path: str, models: Sequence[ModelSettings]) -> Difference:
    return Difference(path, tuple(_format(_value(model, path, model.d_model)) for model, _ in models))


def _outside(paths: Iterable[str], models: Sequence[ModelSettings]) -> Iterator[Difference]:
    """Differences outside of the layers, and in how layers are grouped."""
    yield from (_of_models(path, models) for path in paths if IN_GROUPS.fullmatch(path) is None)
    layouts = [_groups(settings.model, _is_named(models)) for settings in models]
    for stem in dict.fromkeys(stem for layout in layouts for stem in layout):
        yield Difference(f"{stem}groups", tuple(layout.get(stem) for layout in layouts))


def _groups(model: Model, named: bool) -> dict[str, str]:
    """The layers of each group of a stack, and the length of its pattern.

    `3 + 58`, or `42 in a pattern of 2`.
    """
    return {
        _stack_path(model, stem, named): " + ".join(map(_group, stack.groups))
        for stem, stack in stacks(model)
    }


def _group(group: Group) -> str:
    return str(group.n_layers) + (f" in a pattern of {len(group.blocks)}" if len(group.blocks) > 1 else "")


def _is_named(models: Sequence[ModelSettings]) -> bool:
    """Whether stacks need names, as the models are of several kinds."""
    return len({kind_of(settings.model) for settings in models}) > 1


def _stack_path(model: Model, stem: str, named: bool) -> str:
    """The stack's path; a model's only stack is named by the model's kind if `named`."""
    return stem or (f"{kind_of(model) or 'decoder'}." if named else "")


def _of_layers(paths: Iterable[str], models: Sequence[ModelSettings]) -> Iterator[Difference]:
    """Differences in layer settings, one for all layers of a stack."""
    matches = [match for match in map(IN_GROUPS.fullmatch, paths) if match and match["rest"]]
    rests = _in_order(match["rest"] for match in matches)
    named = _is_named(models)
    models_blocks = [(settings.model, _blocks(settings.model, named)) for settings in models]
    for stem in dict.fromkeys(stem for _, blocks in models_blocks for stem in blocks):
        for rest in rests:
            values = tuple(_tally(blocks.get(stem, []), rest, model) for model, blocks in models_blocks)
            yield Difference(f"{stem}layers.*.{rest}", values)


def _blocks(model: Model, named: bool) -> dict[str, list[tuple[Block, int]]]:
    blocks: dict[str, list[tuple[Block, int]]] = {}
    for layer in LayerIndex(model):
        blocks.setdefault(_stack_path(model, layer.prefix, named), []).append((layer.block, layer.times))
    return blocks


def _tally(blocks: Sequence[tuple[Block, int]], rest: str, model: Model) -> str | None:
    values = tally((_format(_value(block, rest, model.d_model)), times) for block, times in blocks)
    return format_tally(values, "-") if values else ABSENT


CACHE = "KV cache"
"""The section of the cache."""
RATIOS = (
    "n_layers",
    "d_model",
    "vocab_size",
    "aspect_ratio",
    "d_ff_ratio",
    "active_d_ff_ratio",
    "head_ratio",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "attention_share",
    "state_heads",
    "state_dim",
    "state_head_dim",
    "n_experts",
    "top_k",
    "expert_ratio",
    "active_share",
)
"""Columns that a comparison always shows, equal or not."""


class ComparedFigure(NamedTuple):
    """A figure of a model: its section, key, heading, unit and value."""

    section: str
    key: str
    title: str
    unit: Unit
    value: Any


def figures(name: str, model: Model, request: Request, context: int, dtype: str) -> list[ComparedFigure]:
    """All figures of a model in display order; the KV cache is that of `context` tokens."""
    architecture = architecture_of(model)
    held = cache_pass(model, replace(request, phase="prefill", seq_len=context, past=None))
    return [
        *_params(model, architecture.counted.rows, dtype),
        *_flops(model, request),
        *_cache(architecture.counted, held, dtype),
        *_columns(describe_architecture(name, architecture)),
    ]


def _params(model: Model, rows: Sequence[Row], dtype: str) -> Iterator[ComparedFigure]:
    total = sum(row.params for row in rows)
    yield ComparedFigure("Parameters", "params", "total", "count", total)
    yield ComparedFigure(
        "Parameters", "active_params", "active", "count", sum(row.active_params for row in rows)
    )
    size = None if model.unknown_form else weight_bytes(model, rows, dtype)
    yield ComparedFigure("Parameters", "bytes", f"bytes in {dtype}", "bytes", size)
    groups: dict[str, int] = {}
    for row in rows:
        groups[row.group] = groups.get(row.group, 0) + row.params
    yield from (
        ComparedFigure("Parameters by group", group, group, "count", n) for group, n in groups.items() if n
    )


def passes_of(request: Request) -> tuple[Request, Request]:
    """The two passes that are compared: a forward, and a token decoded after `past` others."""
    return (
        replace(request, phase="forward", past=None).resolved(),
        replace(request, phase="decode").resolved(),
    )


def _flops(model: Model, request: Request) -> Iterator[ComparedFigure]:
    forward, decode = passes_of(request)
    yield from _pass_figures(f"forward of {request.seq_len:,} tokens", "forward", count_pass(model, forward))
    counted = count_pass(model, decode) if model.caches else None
    yield from _pass_figures(f"a token after {decode.past:,}", "decode", counted)


def _pass_figures(what: str, key: str, counted: Pass | None) -> Iterator[ComparedFigure]:
    matmul_flops, other_flops = (None, None) if counted is None else counted.flops()
    yield ComparedFigure("FLOPs", f"{key}_matmul_flops", what, "flops", matmul_flops)
    yield ComparedFigure("FLOPs", f"{key}_other_flops", f"{what}, non-matmul", "flops", other_flops)


def _cache(one_token: Pass, held: Pass, dtype: str) -> Iterator[ComparedFigure]:
    # a format of weights alone, such as nf4: engines keep the cache in bf16 beside them
    if dtype in FORMATS and not FORMATS[dtype].cache:
        dtype = "bf16"
    growth = one_token.kv_elements()
    yield ComparedFigure(CACHE, "kv_bytes_per_token", "per token", "bytes", cache_bytes(growth, dtype))
    yield ComparedFigure(
        CACHE, "kv_bytes", f"at {held.new:,} tokens", "bytes", cache_bytes(held.cached(), dtype)
    )
    constant = cache_bytes(held.state_elements(), dtype)
    yield ComparedFigure(CACHE, "state_bytes", "constant, of those", "bytes", constant)
    cross = cache_bytes(held.cross_cached(), dtype)
    yield ComparedFigure(CACHE, "cross_kv_bytes", "of the source, apart", "bytes", cross)


def _columns(record: Mapping[str, Any]) -> Iterator[ComparedFigure]:
    for key, column in COLUMNS.items():
        if key in RATIOS:
            yield ComparedFigure("Shape", key, column.title, column.unit, record[key])
        elif column.section and not column.is_figure and key not in {"released", "tied"}:
            value = {True: "yes", False: "no"}.get(record[key], record[key])
            yield ComparedFigure("Structure", key, column.title, "text", value)


def apart(first: Any, second: Any, path: str = "") -> Iterator[Difference]:
    """The fields in which two modules differ, by their paths: `compressor.ratio` 128 and 4."""
    shared = _fields_of(first) if type(first) is type(second) else ()
    if not shared and first != second:
        yield Difference(path, (_format(first), _format(second)))
    for name in shared:
        yield from apart(getattr(first, name), getattr(second, name), f"{path}.{name}" if path else name)


def said_apart(first: Any, second: Any) -> list[str]:
    """The first few fields in which a module differs from another, in words.

    What it has stands before what it lacks: `compressor rate 128`, `index`; `no index`, `not causal`.
    """
    fields = [(setting.path, setting.values[0]) for setting in apart(first, second)][:MOST_SAID]
    ordered = sorted(fields, key=lambda field: field[1] in LACKING)
    return [_said(path, value) for path, value in ordered]


def _said(path: str, value: str | None) -> str:
    name = path.replace(".", " ").replace("_", " ")
    if value in LACKING:
        return f"{'not' if value == 'false' and '.' not in path else 'no'} {name}"
    return name if value in ("true", "{}") else f"{name} {grouped(value)}"


def grouped(value: str | None) -> str | None:
    """A value as it is printed beside others: a whole number with commas, yes or no, none."""
    if value is not None and value.isdecimal():
        return f"{int(value):,}"
    return {"{}": "yes", "true": "yes", "false": "no", "null": "none"}.get(value or "", value)
