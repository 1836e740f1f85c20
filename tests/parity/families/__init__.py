"""The parity table: every family by its name.

A new one is a tiny config with every default that matters said aloud, the same architecture in modules, and
its weight names; its mutants come by themselves.
"""

from parity.families import encoders, experts, gpt, latent, llama, norms, parallel, unusual

FAMILIES = {
    **llama.FAMILIES,
    **gpt.FAMILIES,
    **parallel.FAMILIES,
    **norms.FAMILIES,
    **experts.FAMILIES,
    **latent.FAMILIES,
    **unusual.FAMILIES,
    **encoders.FAMILIES,
}
