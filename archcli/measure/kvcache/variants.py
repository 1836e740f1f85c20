"""Convert: the same layer with another kind of attention, for asking what its cache would hold.

Heads, their width, masks and positions stay; weights would not carry over.

H query heads, d head_dim.
"""

from __future__ import annotations

from archcli.arith import Number, ceil_div
from archcli.modules.attention.base import Attention
from archcli.modules.attention.grouped import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    ProjectedAttention,
)
from archcli.modules.attention.latent import MultiHeadLatentAttention
from archcli.modules.norm import Norm

USUAL_KV_HEADS = (
    8  # Llama 2 70B, Mistral, Llama 3: arXiv:2307.09288 section 2.2, arXiv:2310.06825, arXiv:2407.21783
)


def to_mha(attention: Attention, d_model: Number) -> MultiHeadAttention:
    """H heads of keys and values."""
    return MultiHeadAttention.unchecked(**_heads(attention, d_model))


def to_mqa(attention: Attention, d_model: Number) -> MultiQueryAttention:
    """One head of keys and values."""
    return MultiQueryAttention.unchecked(**_heads(attention, d_model))


def to_gqa(attention: Attention, d_model: Number) -> GroupedQueryAttention:
    """The kv heads it has if it is grouped already, else 8, or the most below that divide H."""
    if isinstance(attention, GroupedQueryAttention):
        return attention
    kv_heads = next(k for k in range(USUAL_KV_HEADS, 0, -1) if attention.n_heads % k == 0)
    return GroupedQueryAttention.unchecked(**_heads(attention, d_model), n_kv_heads=kv_heads)


def to_mla(attention: Attention, d_model: Number, norm: Norm) -> MultiHeadLatentAttention:
    """A latent of 4 d and a shared rotary key of d/2, as DeepSeek-V2 chose; what is latent already stays.

    arXiv:2405.04434 section 2.1.4, table 1.
    """
    if isinstance(attention, MultiHeadLatentAttention):
        return attention
    heads = _heads(attention, d_model)
    d = heads.pop("head_dim")
    sizes = {
        "kv_lora_rank": 4 * d,
        "qk_nope_head_dim": d,
        "qk_rope_head_dim": 2 * ceil_div(d, 4),
        "v_head_dim": heads.pop("v_head_dim"),
    }
    return MultiHeadLatentAttention.unchecked(**heads, **sizes, latent_norm=norm)


def expanded(attention: MultiHeadLatentAttention) -> MultiHeadAttention:
    """What an engine caches that keeps the rebuilt keys and values instead of the latent.

    H (n + r) and H v per token.
    """
    d = attention.qk_nope_head_dim + attention.qk_rope_head_dim
    return MultiHeadAttention.unchecked(
        n_heads=attention.n_heads, head_dim=d, v_head_dim=attention.v_head_dim, **_mask(attention)
    )


def _heads(attention: Attention, d_model: Number) -> dict[str, Number]:
    """What every kind has: heads, their widths, and which tokens they see.

    The rotary dims of a latent's key are not counted to d.
    """
    if isinstance(attention, MultiHeadLatentAttention):
        d, v = attention.qk_nope_head_dim, attention.v_head_dim
    elif isinstance(attention, ProjectedAttention):
        d = attention.width(d_model)
        v = d if attention.v_head_dim is None else attention.v_head_dim
    else:
        raise NotImplementedError(f"{type(attention).__name__} says no width of its heads")
    return {"n_heads": attention.n_heads, "head_dim": d, "v_head_dim": v, **_mask(attention)}


def _mask(attention: Attention) -> dict[str, Number]:
    return {"window": attention.window, "chunk": attention.chunk}


__all__ = ["expanded", "to_gqa", "to_mha", "to_mla", "to_mqa"]
