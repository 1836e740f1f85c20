"""Every op: its shape, weights, cost and cache, worked out by hand.

That its torch run makes that shape, and its module is that run.
"""

import inspect

import pytest
import torch

import archcli.ops
from archcli.graph import Op
from ops.cases import CASES
from ops.checks import CHECKS
from table import every_row

torch.set_num_threads(1)


@pytest.mark.long
@every_row("check", CHECKS, ids=[check.__name__ for check in CHECKS])
@every_row("name", CASES)
def test_answers_what_was_worked_out(name, check):
    check(CASES[name])


BASES = {archcli.ops.Communication, archcli.ops.View}
"""Classes without an operation of their own."""


def test_every_op_has_a_case():
    vocabulary = {cls for _, cls in inspect.getmembers(archcli.ops, inspect.isclass) if issubclass(cls, Op)}
    assert vocabulary - BASES == {type(case.op) for case in CASES.values()}
