"""Decoders of dense layers: a tiny config each, of which the importer makes the architecture."""

from parity.family import EPS, SIZES, Family, rope

BASE = {**SIZES, "rms_norm_eps": EPS, "rope_parameters": rope()}

FAMILIES = {
    "arcee": Family({**BASE, "model_type": "arcee", "hidden_act": "relu2"}),
}
