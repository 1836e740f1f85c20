"""The parity table: every family by its name.

A new one is a tiny config with every default that matters said aloud, the same architecture in modules, and
its weight names; its mutants come by themselves.
"""

from parity.families import (
    beside,
    delta,
    dense,
    encoders,
    experts,
    gpt,
    gpt_kin,
    hybrids,
    indexed,
    latent,
    linear_states,
    llama,
    masked,
    norms,
    parallel,
    pieces,
    routed,
    routed_more,
    shared,
    state_space,
    two_halves,
    unusual,
    wrapped,
    zamba,
)

FAMILIES = {
    **llama.FAMILIES,
    **gpt.FAMILIES,
    **gpt_kin.FAMILIES,
    **parallel.FAMILIES,
    **norms.FAMILIES,
    **experts.FAMILIES,
    **latent.FAMILIES,
    **indexed.FAMILIES,
    **linear_states.FAMILIES,
    **beside.FAMILIES,
    **unusual.FAMILIES,
    **encoders.FAMILIES,
    **dense.FAMILIES,
    **routed.FAMILIES,
    **routed_more.FAMILIES,
    **state_space.FAMILIES,
    **pieces.FAMILIES,
    **masked.FAMILIES,
    **two_halves.FAMILIES,
    **wrapped.FAMILIES,
    **shared.FAMILIES,
    **hybrids.FAMILIES,
    **delta.FAMILIES,
    **zamba.FAMILIES,
}
