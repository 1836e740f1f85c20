"""Reports of profiles: one model, several processes or ranks joined, variants, kinds of layer."""
