"""Kernels: what torch launches in a pass, found by running the operations' own code without torch."""

from archcli.kernels.kernel import KernelCost, KernelRun
from archcli.kernels.trace import trace_kernels

__all__ = ["KernelCost", "KernelRun", "trace_kernels"]
