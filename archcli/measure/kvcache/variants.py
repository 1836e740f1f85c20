"""Variants: attention converted to another kind, or all layers to attention, to compare caches.

Heads, their width, windows and chunks stay; weights would not carry over. H query heads, d head_dim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from archcli.arith import Number, ceil_div, largest_divisor
from archcli.modules import Mixer, Model, substitute
from archcli.modules.attention.grouped import GroupedQueryAttention, MultiHeadAttention, MultiQueryAttention
from archcli.modules.attention.latent import MultiHeadLatentAttention
from archcli.modules.attention.mixer import MixerFacts
from archcli.modules.models.layers import LayerIndex
from archcli.modules.models.stack import Group, Stack, stacks
from archcli.modules.networks.norm import Norm

DEFAULT_KV_HEADS = 8
"""Llama 2 70B, Mistral, Llama 3: arXiv:2307.09288 section 2.2, arXiv:2310.06825, arXiv:2407.21783."""


def to_mha(mixer: MixerFacts) -> MultiHeadAttention:
    """MHA: H heads of keys and values."""
    return MultiHeadAttention.unchecked(**_heads(mixer))


def to_mqa(mixer: MixerFacts) -> MultiQueryAttention:
    """MQA: one head of keys and values."""
    return MultiQueryAttention.unchecked(**_heads(mixer))


def to_gqa(mixer: MixerFacts) -> GroupedQueryAttention:
    """GQA: 8 heads of keys and values, or the largest smaller number that divides H."""
    kv_heads = largest_divisor(mixer.n_heads, DEFAULT_KV_HEADS)
    return GroupedQueryAttention.unchecked(**_heads(mixer), n_kv_heads=kv_heads)


def to_mla(mixer: MixerFacts, norm: Norm) -> MultiHeadLatentAttention:
    """MLA: a latent of 4 d and a shared rotary key of d/2, as in DeepSeek-V2.

    arXiv:2405.04434 section 2.1.4, table 1.
    """
    heads = _heads(mixer)
    d = heads.pop("head_dim")
    sizes = {
        "kv_lora_rank": 4 * d,
        "qk_nope_head_dim": d,
        # d / 2, rounded up to an even number: RoPE turns pairs of dimensions
        "qk_rope_head_dim": 2 * ceil_div(d, 4),
        "v_head_dim": heads.pop("v_head_dim"),
    }
    return MultiHeadLatentAttention.unchecked(**heads, **sizes, latent_norm=norm)


def expanded(mixer: MixerFacts) -> MultiHeadAttention:
    """MLA as MHA with the rebuilt keys and values, as engines without latent caches store it."""
    return MultiHeadAttention.unchecked(**_heads(mixer) | {"head_dim": mixer.head_dim})


def _heads(mixer: MixerFacts) -> dict[str, Number]:
    """Fields common to all kinds: heads, widths (d without a latent's rotary dims), and mask."""
    return {
        "n_heads": mixer.n_heads,
        "head_dim": mixer.content_dim,
        "v_head_dim": mixer.v_head_dim,
        "window": mixer.window,
        "chunk": mixer.chunk,
        "kv_from": mixer.kv_from,
    }


def caching_alike(model: Model) -> Model:
    """Merge neighbouring groups whose layers have equal caches, for answers that need totals alone.

    A network without a state changes no cache: 700 layers, each with a wider network than the one before,
    become one group of 700.
    """
    groups: list[Group] = []
    # layers are named by adapters, and stacks below the model are those of an encoder-decoder
    whole = () if model.lora else (stack for prefix, stack in stacks(model) if not prefix)
    for group in (group for stack in whole if not _is_numbered(stack) for group in stack.groups):
        before = groups[-1] if groups else None
        if before is not None and _caches_alike(before, group):
            groups[-1] = before.replace(n_layers=before.n_layers + group.n_layers)
        else:
            groups.append(group)
    return model.replace(groups=tuple(groups)) if groups else model


def _is_numbered(stack: Stack) -> bool:
    """Whether layers name others, by number or as shared blocks: merged groups would shift these."""
    return stack.lends or stack.shares_blocks


def _caches_alike(before: Group, group: Group) -> bool:
    """Whether each layer of two groups caches the same: layers equal but for a network without a state."""
    blocks = [before.layer, group.layer]
    networks = [network for block in blocks if block is not None for network in block.all_networks]
    if None in blocks or before.tie or group.tie or any(network.keeps_state for network in networks):
        return False
    first, second = (block.replace(ffn=None) for block in blocks if block is not None)
    return bool(first == second)


def attention_only(model: Model) -> Model | None:
    """The model with attention in every layer that mixes tokens; None for one that is no hybrid.

    A layer of parallel branches keeps its own attention; any other layer without scores gets the one that
    most layers of the model have. A layer that uses a shared block with attention has that alone.
    """
    lacking: dict[str, Sequence[Mixer | None]] = {}
    attentions: dict[MixerFacts, Mixer] = {}
    layers_of: Counter[MixerFacts] = Counter()
    for layer in LayerIndex(model):
        if not layer.stack.is_causal:
            continue  # an encoder caches nothing, whatever mixes its tokens
        members = [member for _, member in layer.mixers()]
        attending = [member for member in members if _attends(member)]
        attentions |= {attention.facts(): attention for attention in attending}
        # a Counter's update adds up, unlike that of a dict
        layers_of.update({attention.facts(): layer.times for attention in attending})
        if len(attending) < len(members) and layer.block.mixing is not None:
            path = f"{layer.yaml_path}.{layer.block.mixing[0]}"
            # a layer that uses a shared block with attention needs no second one: None takes its mixer away
            lacking[path] = attending[:1] if layer.uses is None or not attending else [None]
    if not attentions or not lacking:
        return None
    usual = attentions[max(layers_of, key=lambda facts: layers_of[facts])]
    return substitute(model, {path: [*attending, usual][0] for path, attending in lacking.items()})


def _attends(mixer: Mixer) -> bool:
    """Whether it is softmax attention that caches its tokens."""
    facts = mixer.facts()
    return facts.causal and facts.has_scores
