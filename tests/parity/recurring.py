"""Mutants of recurrent mixers, and of what such mixers have around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli import modules as m
from archcli.modules.spec.base import Spec
from parity.alterations import Alteration, both, dropped, kinds, nothing, off, plus, times, to


def unless_one(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """A factor that the model has, multiplied."""
    return times(1.1)(spec, field) if getattr(spec, field) != 1.0 else iter(())


def regrouped(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """All channels normalized together, or the halves of them each."""
    return to(1 if spec.groups > 1 else 2)(spec, field)


RECURRENT_PARTS: dict[type[Spec], dict[str, Alteration]] = {
    m.Recurrent: {
        "form": nothing,
        "conv_kernel": nothing,
        "chunk": nothing,
        "state": nothing,
        "n_groups": nothing,
    },
    m.Mixer: {"in_multiplier": unless_one, "out_multiplier": unless_one},
    m.Mamba2: {
        "bias": off,
        "conv_bias": off,
        "multipliers": times(1.1),
        "step_limit": dropped,
        "norm": nothing,
    },
    m.GatedNorm: {"eps": times(10), "gate": to("before", "after"), "groups": regrouped, "weight": nothing},
    m.Mamba: {"bias": off, "conv_bias": off, "dt_norm": dropped},
    m.DeltaRule: {"chunk": nothing},
    m.GatedDeltaNet: {
        "neg_eigval": off,
        **dict.fromkeys(("n_key_heads", "n_value_heads", "key_head_dim", "value_head_dim"), nothing),
    },
    m.KimiDeltaAttention: {
        "gate_rank": nothing,
        "full_gates": nothing,
        "decay_bound": times(1.1),
    },
    m.LightningAttention: {"bias": off, "chunk": nothing},
    m.MLSTM: {
        "bias": off,
        "chunk": nothing,
        "eps": times(10),
        "gate_softcap": both(times(2), dropped),
        "key_head_dim": nothing,
        "value_head_dim": nothing,
    },
    m.GatedNorm: {"eps": times(10), "gate": to("before", "after"), "groups": nothing, "bias": off},
    m.NormedStream: {
        "alpha": times(1.1),
        "beta": times(1.1),
        "ffn_alpha": times(1.1),
        "ffn_beta": times(1.1),
        "kind": kinds(m.PreNorm, m.ResidualPostNorm),
    },
    m.ConvolvedNetwork: {"trained_scale": off},
    m.SharedSinkExperts: {"top_k": plus(1, -1), "scale": times(1.1)},
    m.CompressedAttention: {"bias": off},
    m.ShortConvolution: {"bias": off, "conv_bias": off, "conv_kernel": nothing},
}
