"""Compiled kernels: the launches that a compiler fuses, and the bytes that each group moves."""

from archcli.wings.serving.launches.compiled.groups import compiled_kernels

__all__ = ["compiled_kernels"]
