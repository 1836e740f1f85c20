"""Disentangled attention by DeBERTa's keys: terms of scores, the table of relative positions."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import even_split
from archcli.load.huggingface.parts.networks import layernorm

TERMS = ("c2p", "p2c")


def disentangled(config: Config) -> tuple[Mapped, Mapped]:
    """Fields of attention, and of the model: its table of relative positions, if there is one."""
    terms = terms_of(config)
    attention = {"scale": _scale(config, len(terms))} if terms else {}
    relative = _relative(config, terms)
    return attention | relative.pop("attention", {}), relative


def terms_of(config: Config) -> list[str]:
    """The scores besides those of contents: c2p, p2c, as a list or joined by |."""
    types = config.value("pos_att_type", default=[])
    parts = types.value.lower().split("|") if isinstance(types.value, str) else types.value
    if not isinstance(parts, list | tuple) or not all(str(word).strip() in TERMS for word in parts):
        what = f"pos_att_type {short_repr(types.value)} is not supported"
        raise config.error(what, "known: c2p, p2c", types.place)
    return [term for term in TERMS if term in [str(word).strip() for word in parts]]


def _scale(config: Config, terms: int) -> float:
    """1 / sqrt(d times the number of terms, contents included): DeBERTa, arXiv:2006.03654 equation 4."""
    return float((max(1, even_split(config).value) * (1 + terms)) ** -0.5)


def _relative(config: Config, terms: list[str]) -> Mapped:
    """The table of relative positions and its use by attention; empty without relative attention."""
    normed = "layer_norm" in str(config.get("norm_rel_ebd", default="none")).lower()
    distance = config.value("max_relative_positions", default=-1)
    buckets = config.value("position_buckets", default=-1)
    share = config.flag("share_att_key", default=False)
    if not config.flag("relative_attention"):
        if normed:
            what = "norm_rel_ebd layer_norm without relative_attention is not supported"
            raise config.error(what, at=config.place("norm_rel_ebd"))
        return {}
    if not terms:
        what = "relative_attention without pos_att_type is not supported"
        raise config.error(what, "pos_att_type: [c2p, p2c]", config.place("relative_attention"))
    key = "max_relative_positions" if _is_positive(distance.value) else "max_position_embeddings"
    furthest = config.size(key)
    bucketed = config.size("position_buckets") if _is_positive(buckets.value) else None
    if bucketed is not None and not 1 <= bucketed.value // 2 < furthest.value - 1:
        raise config.error(
            f"position_buckets {bucketed} do not fit distances up to {furthest}", at=buckets.place
        )
    attention: Mapped = {"kind": "disentangled", "terms": terms, "share": share, "max_distance": furthest}
    attention |= {} if bucketed is None else {"buckets": bucketed}
    norm = {"norm": layernorm(config.number("layer_norm_eps"))} if normed else {}
    return {"attention": attention, "relative": {"size": bucketed or furthest, **norm}}


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and value > 0
