"""Mutants of layers that share keys and values, and of several residual streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli import modules as m
from archcli.modules.spec.base import Spec
from parity.alterations import (
    Alteration,
    altered,
    both,
    dropped,
    filled,
    kinds,
    nothing,
    off,
    plus,
    times,
    to,
)


def earlier_keys(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The keys and values of another layer of the same kind, two before."""
    if spec.kv_from is not None:
        yield "kv_from-2", altered(spec, kv_from=spec.kv_from - 2)


def earlier_index(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The choice of the layer before the one whose index is read."""
    if spec.index_from:
        yield "index_from-1", altered(spec, index_from=spec.index_from - 1)


def own_index(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Without an index, where the layer has one itself."""
    return dropped(spec, field) if spec.index_from is None else iter(())


def without_blocks(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The window alone."""
    if spec.compressor is not None:
        yield "no compressor", altered(spec, compressor=None, index=None)


def of_own_values(alteration: Alteration) -> Alteration:
    """A change of values, where the layer has values of its own that no norm makes as long as they were."""
    return lambda spec, field: (
        alteration(spec, field) if spec.kv_from is None and spec.values == "projected" else iter(())
    )


def scaled_values(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Values multiplied, unless a norm divides by their length."""
    return of_own_values(times(1.1))(spec, field) if spec.v_norm is None else iter(())


def other_gate(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Another activation of the per-layer gate, and none, where there is one."""
    return both(to(m.SiLU()), dropped)(spec, field) if spec.per_layer_gate is not None else iter(())


def denser(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Gates of which more is kept, or all."""
    return both(times(0.5), off)(spec, field) if spec.sparsity else iter(())


def ungated(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Another factor on what is added, where no gates take its place."""
    return times(1.1)(spec, field) if spec.residual_gate is None else iter(())


def shares_alike(model: Any, mutant: Any) -> bool:
    """Whether what layers share still fits: keys and values of another layer, vectors for each of them."""
    if not isinstance(model, m.Decoder):
        return True
    depths = {sum(group.n_layers for group in each.groups) for each in (model, mutant)}
    conflicts = {conflict.code for conflict in mutant.check_width(model.d_model)}
    return "reads-of-layer" not in conflicts and (model.per_layer_embedding is None or len(depths) == 1)


SHARING_PARTS: dict[type[Spec], dict[str, Alteration]] = {
    m.DoubleNorm: {
        "post_norm": dropped,
        "ffn_post_norm": dropped,
        "laurel_rank": dropped,
        "beside": dropped,
        "per_layer_gate": other_gate,
        "stored_scale": off,
        "residual_gate": both(times(1.5), dropped),
        "residual_multiplier": ungated,
        "nth_branch": ungated,
    },
    m.AltUp: {"active": to(0, 1), "corrects_scale": off, "inputs": nothing},
    m.StreamBlock: {"n_streams": nothing, "residual_multiplier": nothing, "nth_branch": nothing},
    m.HyperConnected: {
        "magnitude": times(1.1),
        "eps": both(to(0.02), off),
        "stream_norm": nothing,
        "sinkhorn": plus(1),
    },
    m.Decoder: {"per_layer_embedding": nothing},
    m.ProportionalScaling: {"share": times(0.5), "factor": times(2), "kind": kinds(m.NoScaling)},
    m.GLU: {"sparsity": denser},
    m.Router: {"norm": dropped, "expert_scale": off},
    m.MixtureOfExperts: {"expert_norm": dropped, "latent_norm": dropped, "expert_out_norm": dropped},
    m.ProjectedAttention: {
        "value_multiplier": scaled_values,
        "v_norm": of_own_values(both(dropped, filled(m.RMSNorm(weight=False)))),
        "values": nothing,
        "kv_from": earlier_keys,
    },
    m.MultiHeadLatentAttention: {"kv_from": earlier_keys},
}
