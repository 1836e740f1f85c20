"""The run of a profile: one model, kinds of layer, variants, ranks; and profiles read back."""
