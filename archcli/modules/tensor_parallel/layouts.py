"""How each kind of module is split among the ranks of a tensor-parallel group: a table.

Matrices that make heads or hidden channels are split by their outputs, the matrix that reads them by its
inputs (arXiv:1909.08053 section 3). A kind that is not in the table is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from archcli.modules.spec.base import Spec

NOTHING: Mapping[str, int] = MappingProxyType({})


class Layout(NamedTuple):
    """How a kind is split.

    `divided` are the fields of which a rank has its part, `copied` one that counts heads of keys and values:
    where there are fewer than ranks, each is held by several. `norms` are the fields of norms that see all
    channels at once, and so gather them.

    A tensor that every rank has whole enters the split part somewhere, and there its gradients are summed:
    at the module's input if `enters`, and at the inputs of ops named in `reads`. Partial sums are added up
    where they leave: at the module's output if `leaves`, and at the outputs of ops named in `writes`.
    `refused` says why a module with this field set cannot be split.
    """

    divided: tuple[str, ...] = ()
    copied: str = ""
    norms: tuple[str, ...] = ()
    enters: bool = True
    leaves: bool = True
    reads: Mapping[str, int] = NOTHING
    writes: tuple[str, ...] = ()
    refused: Mapping[str, str] = MappingProxyType({})


WITHIN = Layout(enters=False, leaves=False)
"""Within a module that is split: nothing is exchanged."""
# told from WITHIN by `is`: the two are equal
SUMMED = Layout(enters=False, leaves=False, reads={})
"""Within a head whose input has been gathered: its gradients are summed there."""

SOFTMAX = Layout(
    ("n_heads",),
    copied="n_kv_heads",
    norms=("inner_norm",),
    refused={
        "value_gate": "its gates read the values of all heads",
        "blocks": "a rank has rows of whole matrices, not blocks of their diagonals",
    },
)
EXPERTS = {"dispatch": 0, "combine": 1, "shared_gated": 1}
"""Inputs of experts that every rank has: tokens, weights of outputs, the gate of a shared expert."""

LAYOUTS: Mapping[str, Layout] = {
    "mha": SOFTMAX,
    "mqa": SOFTMAX,
    "gqa": SOFTMAX,
    "cross": SOFTMAX,
    "disentangled": SOFTMAX._replace(
        reads=dict.fromkeys(("pos_q_proj", "pos_k_proj", "q_position", "k_position"), 0)
    ),
    # every rank has the sinusoids of all distances
    "transformer_xl": SOFTMAX._replace(reads={"r_proj": 0}),
    "linear": Layout(("n_heads",)),
    # an index head chooses for the query heads of a rank; its keys, of one head, every rank has
    "blocks": Layout(copied="n_heads", enters=False, leaves=False),
    "mla": SOFTMAX._replace(
        enters=False,
        reads={
            **dict.fromkeys(("q_proj", "q_b_proj", "q_gate_proj", "kv_b_proj", "gate_proj"), 0),
            # k_pe, which all heads share, enters as the second input of the op that joins the keys
            "k": 1,
        },
    ),
    # the latent, keys of tokens and blocks, and the indexer are whole on every rank
    "compressed": Layout(
        ("n_heads", "o_groups"), enters=False, reads={"q_b_proj": 0, "kv_head": 0, "kv_blocks": 1}
    ),
    "mamba": Layout(
        ("d_inner",),
        reads={"x_split": 0},
        # x_proj reads d_inner channels, of which a rank has some: its r, B and C are partial sums
        writes=("x_proj",),
        refused={"n_heads": "its heads have steps and states of their own"},
    ),
    "mamba2": Layout(("n_heads", "n_groups", "norm.groups")),
    "gated_delta_net": Layout(("n_key_heads", "n_value_heads")),
    "kda": Layout(
        ("n_heads",),
        enters=False,
        # f_a and g_a, the narrow halves of the gates, are whole on every rank: what reads them is split
        reads=dict.fromkeys([f"{name}_proj" for name in ("q", "k", "v", "b", "f", "g", "f_b", "g_b")], 0),
    ),
    "lightning": Layout(("n_heads", "norm.groups")),
    "retention": Layout(("n_heads",)),
    "mlstm": Layout(("n_heads",)),
    "rg_lru": Layout(("width", "n_blocks")),
    "rwkv4": Layout(("width",)),
    "mlp": Layout(
        ("d_ff",),
        norms=("inner_norm",),
        refused={"blocks": "a rank has rows of whole matrices, not blocks of their diagonals"},
    ),
    "glu": Layout(
        ("d_ff",),
        norms=("inner_norm",),
        refused={"sparsity": "it takes the mean and the deviation of all d_ff channels"},
    ),
    # r_proj is whole on every rank; v_proj's partial sums are added before r gates them
    "rwkv_channel_mix": Layout(
        ("d_ff",), enters=False, leaves=False, reads={"k_proj": 0}, writes=("v_proj",)
    ),
    "moe": Layout(
        enters=False,
        reads=EXPERTS,
        refused={"expert_out_norm": "it normalizes whole outputs of experts, and a rank has partial sums"},
    ),
    "carried_moe": Layout(enters=False, reads=EXPERTS),
}
"""The layout of each kind of mixer and feed-forward network that can be split, and of an index."""

SPLIT_IN_PARTS = {"attention", "cross_attention", "ffn", "index"}
"""The families of the kinds in the table."""
COMPOSED = {"parallel", "convolved"}
"""Kinds made of others, each of which is split by itself."""


def layout_of(module: Spec) -> Layout | None:
    """The layout of a mixer, a feed-forward network or an index; None for a module of any other kind."""
    kind = getattr(module, "kind", "") if module.family in SPLIT_IN_PARTS else ""
    layout = LAYOUTS.get(kind)
    if layout is None or kind != "moe" or not _ends_otherwise(module):
        return layout
    # what follows the sum over experts is no sum itself: the ranks' parts are added up before it
    return layout._replace(leaves=False, writes=("combine",))


def _ends_otherwise(mixture: Any) -> bool:
    """Whether a mixture goes on behind the sum of its experts: by a norm, a matrix or a bias."""
    return mixture.out_norm is not None or mixture.latent is not None or mixture.out_bias
