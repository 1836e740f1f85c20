"""Which of our weights each weight of a Hugging Face model becomes, as data: a table from their name patterns to our names.

`*` in a pattern stands for one step of a name (a layer's index, `weight` or `bias`) and fills the `*` of our names in
order; `#` stands for the index of a tensor that is stacked with its neighbours into one of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Take:
    """One of theirs becomes one or several of ours.

    `transposed`: stored [in, out] (GPT-2's Conv1D, stacked experts of some). `axis`: several of ours lie one after the
    other along it. `groups`: they do so anew in each of so many groups (q, k, v of head 0, then of head 1, …).
    """

    ours: tuple[str, ...]
    axis: int = 0
    groups: int = 1
    transposed: bool = False


Rule = str | Take
Weights = Mapping[str, Rule]


def takes(rule: Rule) -> Take:
    """A plain name is a copy."""
    return Take((rule,)) if isinstance(rule, str) else rule


def find(name: str, weights: Weights) -> tuple[Take, list[str], int | None]:
    """The one rule for their tensor `name`, the words its `*` stand for, and its index where it is one of a stack."""
    found = []
    for pattern, rule in weights.items():
        match = re.fullmatch(re.escape(pattern).replace(r"\*", "([^.]+)").replace(r"\#", r"(?P<index>\d+)"), name)
        if match:
            index = match.groupdict().get("index")
            words = [word for place, word in enumerate(match.groups(), 1) if place != match.re.groupindex.get("index")]
            found.append((takes(rule), words, None if index is None else int(index)))
    if len(found) != 1:
        raise KeyError(f"{name} has {len(found)} rules")
    return found[0]


def translate(theirs: Mapping[str, torch.Tensor], weights: Weights, shapes: Mapping[str, torch.Size]) -> dict[str, torch.Tensor]:
    """Our state dict from theirs; to write one of ours twice is an error."""
    pieces: dict[str, dict[int | None, torch.Tensor]] = {}
    for name, tensor in theirs.items():
        take, words, index = find(name, weights)
        for template, piece in zip(take.ours, _split(tensor, take, words, shapes), strict=True):
            own = pieces.setdefault(_filled(template, words), {})
            if index in own:
                raise KeyError(f"{_filled(template, words)} is written twice, the second time by {name}")
            own[index] = piece
    return {name: own[None] if None in own else torch.stack([own[i] for i in range(len(own))]) for name, own in pieces.items()}


def _split(tensor: torch.Tensor, take: Take, words: list[str], shapes: Mapping[str, torch.Size]) -> Iterator[torch.Tensor]:
    """The pieces of one tensor of theirs, in the order of `take.ours`."""
    tensor = tensor.transpose(-1, -2) if take.transposed and tensor.dim() > 1 else tensor
    if len(take.ours) == 1:
        yield tensor
        return
    sizes = [shapes[_filled(name, words)][take.axis] // take.groups for name in take.ours]
    grouped = tensor.unflatten(take.axis, (take.groups, -1))
    for piece in grouped.split(sizes, dim=take.axis + 1):
        yield piece.flatten(take.axis, take.axis + 1)


def _filled(template: str, words: list[str]) -> str:
    rest = iter(words)
    return re.sub(r"\*", lambda _: next(rest), template)


LLAMA: Weights = {
    "model.embed_tokens.weight": "embedding.tokens.weight",
    "model.layers.*.self_attn.q_proj.*": "layers.*.attention.q_proj.*",
    "model.layers.*.self_attn.k_proj.*": "layers.*.attention.k_proj.*",
    "model.layers.*.self_attn.v_proj.*": "layers.*.attention.v_proj.*",
    "model.layers.*.self_attn.o_proj.*": "layers.*.attention.o_proj.*",
    "model.layers.*.input_layernorm.*": "layers.*.attention_norm.*",
    "model.layers.*.post_attention_layernorm.*": "layers.*.ffn_norm.*",
    "model.layers.*.mlp.gate_proj.*": "layers.*.ffn.gate_proj.*",
    "model.layers.*.mlp.up_proj.*": "layers.*.ffn.up_proj.*",
    "model.layers.*.mlp.down_proj.*": "layers.*.ffn.down_proj.*",
    "model.norm.*": "final_norm.*",
    "lm_head.*": "lm_head.*",
}
"""The names most families share; each adds its own and replaces what differs."""

QK_NORM: Weights = {
    "model.layers.*.self_attn.q_norm.weight": "layers.*.attention.q_norm.weight",
    "model.layers.*.self_attn.k_norm.weight": "layers.*.attention.k_norm.weight",
}

EXPERTS: Weights = {
    "model.layers.*.mlp.gate.weight": "layers.*.ffn.router.weight",
    "model.layers.*.mlp.experts.gate_up_proj": Take(
        ("layers.*.ffn.experts.gate_proj.weight", "layers.*.ffn.experts.up_proj.weight"), axis=1
    ),
    "model.layers.*.mlp.experts.down_proj": "layers.*.ffn.experts.down_proj.weight",
}
"""Stacked as transformers 5 holds them in memory."""

STORED_EXPERTS: Weights = {
    "model.layers.*.mlp.gate.weight": "layers.*.ffn.router.weight",
    "model.layers.*.mlp.experts.#.gate_proj.weight": "layers.*.ffn.experts.gate_proj.weight",
    "model.layers.*.mlp.experts.#.up_proj.weight": "layers.*.ffn.experts.up_proj.weight",
    "model.layers.*.mlp.experts.#.down_proj.weight": "layers.*.ffn.experts.down_proj.weight",
}
"""One tensor per expert, as checkpoints are stored."""

MLA: Weights = {
    "model.layers.*.self_attn.q_a_proj.*": "layers.*.attention.q_a_proj.*",
    "model.layers.*.self_attn.q_a_layernorm.weight": "layers.*.attention.q_a_norm.weight",
    "model.layers.*.self_attn.q_b_proj.weight": "layers.*.attention.q_b_proj.weight",
    "model.layers.*.self_attn.kv_a_proj_with_mqa.*": "layers.*.attention.kv_a_proj.*",
    "model.layers.*.self_attn.kv_a_layernorm.weight": "layers.*.attention.kv_a_norm.weight",
    "model.layers.*.self_attn.kv_b_proj.weight": "layers.*.attention.kv_b_proj.weight",
}
