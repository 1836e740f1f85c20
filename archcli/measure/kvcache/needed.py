"""What another kind of attention needs beside its name: the sizes that its cache is compared with."""

from __future__ import annotations

from archcli.measure.kvcache.kvcache import CONVERSIONS, cached_attention
from archcli.modules import Model, find
from archcli.modules.spec.base import Spec, ends_in


def needed_sizes(model: Model, name: str, kind: str) -> dict[str, int]:
    """The sizes that another kind of attention must state, by full path, for every `kind` of this name.

    Empty where the kind has none, is no conversion of `archcli kvcache`, or some layer of the name is no
    attention with heads.
    """
    stated = {path: spec for path, spec in find(model, Spec) if ends_in(f"{path}.kind", name.split("."))}
    heads = {path: facts for path, facts in cached_attention(model).items() if facts.content_dim is not None}
    if kind not in CONVERSIONS or not all(path in heads for path in stated):
        return {}
    variants = {path: CONVERSIONS[kind](heads[path], model.norm) for path in stated}
    return {
        f"{path}.{field}": getattr(variant, field)
        for path, variant in variants.items()
        for field, declared in variant.fields.items()
        if declared.required and not declared.inherits and getattr(stated[path], field, None) is None
    }
