"""RoPE in a config.json: two generations of keys, seven kinds of scaling."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config, is_number, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none

Parameters = dict[str, ConfigValue[Any]]
"""The rope parameters that a file states, by their keys."""

# RoFormer, arXiv:2104.09864 section 3.2.2
DEFAULT_THETA = 10000.0
MSCALES = ("mscale", "mscale_all_dim")
PAIR = 2


class RopeClass(NamedTuple):
    """RoPE defaults and conventions of a family's class, which no key of the file states.

    `theta` is its default base. `partial` is its default share of a head that is rotated; None where all of
    it is, whatever the file says. `renamed` are kinds of scaling that the class takes for another.
    `scales_scores`: the mscale_all_dim of YaRN is a factor on scores too (DeepSeek).
    """

    theta: float = DEFAULT_THETA
    pairing: str = "half"
    partial: float | None = None
    renamed: Mapping[str, str] = {}
    scales_scores: bool = False


def rope(config: Config, head_dim: ConfigValue[int], **fixed: Any) -> ConfigValue[Mapped]:
    """The position mapping of an attention with heads of this width; `fixed` are fields of `RopeClass`."""
    return position(config, head_dim, rope_parameters(config), **fixed)


def position(
    config: Config, head_dim: ConfigValue[int], parameters: Parameters, **fixed: Any
) -> ConfigValue[Mapped]:
    """The position mapping by these rope parameters."""
    cls = RopeClass(**fixed)
    config.ignore("original_max_position_embeddings")
    known = {"rope_theta": config.value("rope_theta", default=cls.theta), **parameters}
    if cls.partial is not None:
        share = config.value("partial_rotary_factor", default=cls.partial)
        known = {"partial_rotary_factor": share, **known}
    base, width = _number(config, known, "rope_theta"), head_dim.value
    rotated = width if cls.partial is None else int(width * _share(config, known))
    even = rotated + rotated % 2 if rotated < width else width
    if rotated == 0:
        return head_dim.derive({"kind": "none"})
    if base.value <= 0:
        raise config.error(f"rope_theta must be above 0, not {base}", at=base.place)
    if even != rotated:  # the classes round pairs up, and divide exponents by the odd width
        base = base.derive(base.value ** (even / rotated))
    mapping = {
        "kind": "rope",
        "theta": base,
        "rotary_dim": head_dim.derive(even) if even != width else None,
        "pairing": cls.pairing if cls.pairing != "half" else None,
        "scaling": _scaling(config, parameters, cls),
    }
    return head_dim.derive(without_none(mapping))


def rope_of_type(
    config: Config, head_dim: ConfigValue[int], kind: str, defaults: Mapping[str, Mapping[str, float]]
) -> ConfigValue[Mapped]:
    """The position mapping of the layers of a type, by what rope_parameters nests under it.

    `defaults` are the class's theta and share of each type where the file has none; the class reads no other
    key. A type that states no share turns the whole head.
    """
    usual: Parameters = {
        key: ConfigValue(value, config.places.start) for key, value in defaults[kind].items()
    }
    if config.get("rope_parameters", default=None) is None:
        return position(config, head_dim, usual, partial=1.0)
    nested = parameters(config, "rope_parameters", kind)
    if "rope_theta" not in nested:
        what = f"rope_parameters need a mapping {kind!r} with a rope_theta"
        raise config.error(what, at=config.place("rope_parameters"))
    return position(config, head_dim, nested, partial=1.0)


def stretched_rope(config: Config, head_dim: ConfigValue[int]) -> ConfigValue[Mapped]:
    """RoPE with dynamic scaling, whose base an `alpha` stretches for all lengths alike (Hunyuan).

    The base is theta * alpha^(d / (d - 2)). Hunyuan VL's first files call it xdrope.
    """
    known, width = rope_parameters(config), head_dim.value
    kind, alpha = known.get("rope_type", known.get("type")), known.get("alpha")
    if kind is None or kind.value not in ("dynamic", "xdrope") or not alpha or width <= PAIR:
        return position(config, head_dim, known, renamed={"xdrope": "dynamic"})
    base = config.value("rope_theta", default=DEFAULT_THETA)
    theta = _number(config, {"rope_theta": base, **known}, "rope_theta").value
    stretch = _number(config, known, "alpha").value ** (width / (width - PAIR))
    return position(config, head_dim, {"rope_theta": alpha.derive(theta * stretch)})


def rope_parameters(config: Config) -> Parameters:
    """`rope_scaling` (transformers 4), which the classes read first, else `rope_parameters` (5)."""
    config.ignore("rope_parameters")
    return parameters(config, "rope_scaling") or parameters(config, "rope_parameters")


def sharpened(config: Config) -> Mapped | None:
    """Queries' temperature 1 + beta ln(1 + floor(position / original context)); None where beta is 0."""
    known = rope_parameters(config)
    beta, context = known.get("llama_4_scaling_beta"), known.get("original_max_position_embeddings")
    if beta is None or context is None:
        keys = "llama_4_scaling_beta and original_max_position_embeddings"
        raise config.error(f"the rope parameters need {keys}", at=config.place("rope_parameters"))
    return {"scale": beta, "floor_scale": context, "first": 0} if beta else None


def parameters(config: Config, key: str, within: str = "") -> Parameters:
    """The mapping at a key, or the mapping nested in it; empty where there is none."""
    mapping, places = config.get(key, default={}), config.places.inner(key)
    if within and isinstance(mapping, dict):
        mapping, places = mapping.get(within) or {}, places.inner(within)
    if not isinstance(mapping, dict):
        what = f"{within or key} must be a mapping, not {short_repr(mapping)}"
        raise config.error(what, at=config.place(key))
    return {
        name: ConfigValue(value, places.place(name)) for name, value in mapping.items() if value is not None
    }


def _scaling(config: Config, entries: Parameters, cls: RopeClass) -> ConfigValue[Mapped] | None:
    kind = entries.get("rope_type", entries.get("type"))
    if kind is None or kind.value == "default":
        return None
    name = kind.value
    build = KINDS.get(cls.renamed.get(name, name)) if isinstance(name, str) else None
    if build is None:
        known = "known: default, " + ", ".join(KINDS)
        raise config.error(f"rope scaling {short_repr(name)} is not supported", known, kind.place)
    if name == "proportional" and cls.partial is not None:
        raise config.error(
            "rope_type proportional is not supported here", "the class turns a part", kind.place
        )
    mapping = build(config, entries)
    return kind.derive(mapping if cls.scales_scores else _on_angles(mapping))


def _on_angles(mapping: Mapped) -> Mapped:
    """mscale and mscale_all_dim of YaRN as their one factor on cosines and sines."""
    rest = {key: value for key, value in mapping.items() if key not in MSCALES}
    if len(rest) + len(MSCALES) > len(mapping) or "attention_factor" in rest:
        return rest
    factor = rest["factor"].value
    # yarn_get_mscale of DeepSeek's model.py
    up, down = (0.1 * mapping[key].value * log(max(factor, 1.0)) + 1.0 for key in MSCALES)
    return {**rest, "attention_factor": mapping["mscale"].derive(up / down)}


def _original(config: Config, entries: Parameters) -> ConfigValue[int]:
    """The context before scaling; a key outside of the parameters (Phi-3) goes before the one inside."""
    key = "original_max_position_embeddings"
    outside = config.optional_size(key)
    if outside:
        return outside
    inside = _number(config, entries, key) if key in entries else config.size("max_position_embeddings")
    if inside.value < 1:
        raise config.error(f"{key} must be 1 or more, not {inside}", at=inside.place)
    return inside.derive(int(inside.value))


def _number(config: Config, entries: Parameters, key: str) -> ConfigValue[float]:
    value = entries.get(key)
    if value is None or not is_number(value.value):
        at = value.place if value is not None else None
        raise config.error(f"the rope parameters need a number {key!r}", at=at)
    return value.derive(float(value.value))


def _optional(config: Config, entries: Parameters, *keys: str) -> Mapped:
    """The numbers at these keys, without keys that are missing or 0."""
    return {key: _number(config, entries, key) for key in keys if entries.get(key)}


def _numbers(config: Config, entries: Parameters, key: str) -> ConfigValue[list[float]]:
    values = entries.get(key)
    if values is None or not isinstance(values.value, list) or not all(map(is_number, values.value)):
        at = values.place if values is not None else None
        raise config.error(f"the rope parameters need a list of numbers {key!r}", at=at)
    return values.derive([float(value) for value in values.value])


def _share(config: Config, entries: Parameters) -> float:
    """The share of a head that is rotated, 1 at most."""
    share = _number(config, entries, "partial_rotary_factor")
    if share.value < 0:
        raise config.error(f"partial_rotary_factor must be 0 or more, not {share}", at=share.place)
    return min(share.value, 1.0)


def _linear(config: Config, entries: Parameters) -> Mapped:
    return {"kind": "linear", "factor": _number(config, entries, "factor")}


def _dynamic(config: Config, entries: Parameters) -> Mapped:
    return {
        "kind": "dynamic_ntk",
        "factor": _number(config, entries, "factor"),
        "original_max_seq_len": config.size("max_position_embeddings"),
    }


def _proportional(config: Config, entries: Parameters) -> Mapped:
    turned = "partial_rotary_factor" in entries
    share = {"share": _number(config, entries, "partial_rotary_factor")} if turned else {}
    return {"kind": "proportional", **share, **_optional(config, entries, "factor")}


def _llama3(config: Config, entries: Parameters) -> Mapped:
    return {
        "kind": "llama3",
        **{key: _number(config, entries, key) for key in ("factor", "low_freq_factor", "high_freq_factor")},
        "original_max_seq_len": _original(config, entries),
    }


def _yarn(config: Config, entries: Parameters) -> Mapped:
    truncated = entries.get("truncate")
    return {
        "kind": "yarn",
        "factor": _number(config, entries, "factor"),
        "original_max_seq_len": _original(config, entries),
        # arXiv:2309.00071 section 3.2, and the defaults of transformers
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        **_optional(
            config, entries, "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim"
        ),
        **({} if truncated is None or truncated else {"truncate": truncated.derive(False)}),
    }


def _longrope(config: Config, entries: Parameters) -> Mapped:
    original = _original(config, entries)
    factor = _optional(config, entries, "factor")
    if not factor:
        longest = config.size("max_position_embeddings")
        factor = {"factor": longest.derive(longest.value / original.value)}
    return {
        "kind": "longrope",
        **factor,
        "original_max_seq_len": original,
        "short_factor": _numbers(config, entries, "short_factor"),
        "long_factor": _numbers(config, entries, "long_factor"),
        **_optional(config, entries, "attention_factor"),
    }


KINDS = {
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    # what the first files of Phi-3 call longrope
    "su": _longrope,
    "proportional": _proportional,
}
"""Kinds of scaling by `rope_type`."""

RENAMED = {"original_max_seq_len": "original_max_position_embeddings", "kind": "rope_type"}
"""Our keys of a scaling, and theirs."""


def stated_rope(position: Mapping[str, Any]) -> Mapped:
    """The rope parameters of a position's fields (`theta`, `scaling.kind`): `position` backwards."""
    scaling: Mapped = {
        name.removeprefix("scaling."): list(value) if isinstance(value, tuple) else value
        for name, value in position.items()
        if name.startswith("scaling.") and value is not None
    }
    kind = scaling.get("kind", "none")
    kind = {"dynamic_ntk": "dynamic", "none": "default"}.get(kind, kind)
    if kind not in (*KINDS, "default"):
        return {}
    renamed = {RENAMED.get(name, name): value for name, value in scaling.items()}
    return {"rope_theta": position["theta"], **renamed, "rope_type": kind}
