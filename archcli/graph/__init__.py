"""Tensors on a tape, operations with a cost, and the rows that counting writes.

A module's forward speaks only of `Tensor`, `Op` and child modules. Its tape decides what that means:
`CountTape` (`count_tape.py`) writes one exact `Row` per operation, the torch tapes (in
`archcli.wings.running.runtime`) build and run a network.
"""

from archcli.arith import label
from archcli.graph.op import MaskTrait, Op, Tape, Tensor, Traits, tree_map
from archcli.graph.part import OpClass, Part, State, StateContent, StateKind, Workspace
from archcli.graph.row import Experts, PassPart, Row

__all__ = [
    "Experts",
    "MaskTrait",
    "Op",
    "OpClass",
    "Part",
    "PassPart",
    "Row",
    "State",
    "StateContent",
    "StateKind",
    "Tape",
    "Tensor",
    "Traits",
    "Workspace",
    "label",
    "tree_map",
]
