"""Classes of transformers' mappings that archcli refuses by name, each with the reason."""

LATER: dict[str, str] = {}
"""Recurrent states, sparse indexers, layers that share or grow: FAMILIES of their own."""

SET_ASIDE: dict[str, str] = {}
