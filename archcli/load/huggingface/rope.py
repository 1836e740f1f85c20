"""How a config.json states RoPE: two generations of keys, seven kinds of scaling."""

from __future__ import annotations

from collections.abc import Mapping

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.config import Config, Mapped, is_number, shown, without_none


def rope(
    config: Config,
    head_dim: int,
    *,
    theta: float = 10000.0,
    pairing: str = "half",
    partial: float | None = None,
    renamed: Mapping[str, str] | None = None,
) -> Mapped:
    """The position mapping of an attention whose heads are `head_dim` wide. Defaults are those of the class.

    `partial` is the class's default share of a head that is turned; None where the class turns all of it whatever the file
    says. `renamed` are kinds of scaling that the class takes for another.
    """
    return position(
        config, head_dim, stated(config), theta=theta, pairing=pairing, partial=partial, renamed=renamed
    )


def position(
    config: Config,
    head_dim: int,
    found: Mapped,
    *,
    theta: float = 10000.0,
    pairing: str = "half",
    partial: float | None = None,
    renamed: Mapping[str, str] | None = None,
) -> Mapped:
    """The same, of the rope parameters in `found`."""
    config.ignore("original_max_position_embeddings")
    known = {"rope_theta": config.get("rope_theta", default=theta), **found}
    if partial is not None:
        known = {"partial_rotary_factor": config.get("partial_rotary_factor", default=partial), **known}
    turned = head_dim if partial is None else int(head_dim * _number(config, known, "partial_rotary_factor"))
    even = turned + turned % 2 if turned < head_dim else head_dim
    base = _number(config, known, "rope_theta")
    if turned == 0:
        return {"kind": "none"}
    if base <= 0:
        raise ArchError(Problem(f"{config.file}: rope_theta must be above 0, not {base}"))
    return without_none(
        {
            "kind": "rope",
            "theta": base
            if even == turned
            else base ** (even / turned),  # they round pairs up, and divide exponents by the odd width
            "rotary_dim": even if even != head_dim else None,
            "pairing": pairing if pairing != "half" else None,
            "scaling": _scaling(config, found, renamed or {}),
        }
    )


def stated(config: Config) -> Mapped:
    """`rope_scaling` (transformers 4), which the class puts first, or `rope_parameters` (5); empty where there is neither."""
    return parameters(config, "rope_scaling") or parameters(config, "rope_parameters")


def parameters(config: Config, key: str, within: str = "") -> Mapped:
    """The mapping at a key, or the one within that; empty where there is none."""
    found = config.get(key, default={})
    if within and isinstance(found, dict):
        found = found.get(within) or {}
    if not isinstance(found, dict):
        raise ArchError(Problem(f"{config.file}: {within or key} must be a mapping, not {shown(found)}"))
    return {key: value for key, value in found.items() if value is not None}


def _scaling(config: Config, stated: Mapped, renamed: Mapping[str, str]) -> Mapped | None:
    kind = stated.get("rope_type", stated.get("type", "default"))
    if kind == "default":
        return None
    build = _KINDS.get(renamed.get(kind, kind)) if isinstance(kind, str) else None
    if build is None:
        raise ArchError(
            Problem(
                f"{config.file}: rope scaling {shown(kind)} is not supported",
                "known: default, " + ", ".join(_KINDS),
            )
        )
    return build(config, stated)


def _original(config: Config, stated: Mapped) -> int:
    """The context before scaling; a key outside of the scaling's own (Phi-3) goes before the one inside."""
    key = "original_max_position_embeddings"
    inside = {"max_position_embeddings": config.size("max_position_embeddings"), **stated}
    return int(
        config.size(key, default=None)
        or _number(config, inside, key if key in stated else "max_position_embeddings")
    )


def _number(config: Config, stated: Mapped, key: str) -> float:
    value = stated.get(key)
    if value is None or not is_number(value):
        raise ArchError(Problem(f"{config.file}: the rope parameters need a number {key!r}"))
    return float(value)


def _numbers(config: Config, stated: Mapped, key: str) -> list[float]:
    values = stated.get(key)
    if not isinstance(values, list) or not all(is_number(value) for value in values):
        raise ArchError(Problem(f"{config.file}: the rope parameters need a list of numbers {key!r}"))
    return [float(value) for value in values]


def _linear(config: Config, stated: Mapped) -> Mapped:
    return {"kind": "linear", "factor": _number(config, stated, "factor")}


def _dynamic(config: Config, stated: Mapped) -> Mapped:
    return {
        "kind": "dynamic_ntk",
        "factor": _number(config, stated, "factor"),
        "original_max_seq_len": config.size("max_position_embeddings"),
    }


def _llama3(config: Config, stated: Mapped) -> Mapped:
    return {
        "kind": "llama3",
        **{key: _number(config, stated, key) for key in ("factor", "low_freq_factor", "high_freq_factor")},
        "original_max_seq_len": _original(config, stated),
    }


def _yarn(config: Config, stated: Mapped) -> Mapped:
    optional = {
        key: _number(config, stated, key)
        for key in ("attention_factor", "mscale", "mscale_all_dim")
        if stated.get(key)
    }
    return {
        "kind": "yarn",
        "factor": _number(config, stated, "factor"),
        "original_max_seq_len": _original(config, stated),
        "beta_fast": _number(config, stated, "beta_fast") if stated.get("beta_fast") else 32.0,
        "beta_slow": _number(config, stated, "beta_slow") if stated.get("beta_slow") else 1.0,
        **optional,
        **({} if stated.get("truncate", True) else {"truncate": False}),
    }


def _longrope(config: Config, stated: Mapped) -> Mapped:
    original = _original(config, stated)
    factor = (
        _number(config, stated, "factor")
        if stated.get("factor")
        else config.size("max_position_embeddings") / original
    )
    return without_none(
        {
            "kind": "longrope",
            "factor": factor,
            "original_max_seq_len": original,
            "short_factor": _numbers(config, stated, "short_factor"),
            "long_factor": _numbers(config, stated, "long_factor"),
            "attention_factor": _number(config, stated, "attention_factor")
            if stated.get("attention_factor")
            else None,
        }
    )


_KINDS = {
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
}
