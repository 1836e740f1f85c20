"""Compiled kernels: what a compiler fuses of a pass's launches into one, and what those groups move."""

from archcli.launches.compiled.groups import compiled_kernels

__all__ = ["compiled_kernels"]
