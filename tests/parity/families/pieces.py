"""Decoders with parts of their own: a tiny config each, of which the importer makes the architecture."""

from parity.family import EPS, SIZES, Family, rope

BASE = {**SIZES, "rms_norm_eps": EPS, "rope_parameters": rope()}

FAMILIES = {
    "apertus": Family({**BASE, "model_type": "apertus", "attention_bias": True}),
    "bitnet": Family({**BASE, "model_type": "bitnet"}),
}
