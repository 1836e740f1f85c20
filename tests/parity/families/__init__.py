"""The parity table: every family by its name."""

from parity.families import experts, gpt, latent, llama, norms, parallel

FAMILIES = {
    **llama.FAMILIES,
    **gpt.FAMILIES,
    **parallel.FAMILIES,
    **norms.FAMILIES,
    **experts.FAMILIES,
    **latent.FAMILIES,
}
