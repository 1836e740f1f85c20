"""Decoders with parts of their own: a tiny config each, of which the importer makes the architecture."""

from parity.family import Family

FAMILIES: dict[str, Family] = {}
