"""Spec: a tree of nodes to modules, with every problem at its place."""
