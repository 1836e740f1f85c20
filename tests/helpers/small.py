"""A decoder small enough to be counted by hand.

V 50, D 8, 3 layers, 4 query heads and 2 kv heads of width 2, F 12.
"""

from archcli.modules import GLU, Decoder, Embedding, Group, GroupedQueryAttention, PreNorm, RMSNorm
from archcli.modules.spec.base import Module

NORM = RMSNorm(eps=1e-5)


def attention(**changes):
    return GroupedQueryAttention(**{"n_heads": 4, "n_kv_heads": 2, "head_dim": 2} | changes)


def layer(attend: Module | None = None, ffn: Module | None = None):
    return PreNorm(attention=attend or attention(), ffn=ffn or GLU(d_ff=12), norm=NORM)


def decoder(*groups: Group, tied=False, **changes):
    groups = groups or (Group(n_layers=3, layer=layer()),)
    fields = {
        "name": "small",
        "vocab_size": 50,
        "d_model": 8,
        "norm": NORM,
        "embedding": Embedding(tied=tied),
        "groups": groups,
    }
    return Decoder(**fields | changes)
