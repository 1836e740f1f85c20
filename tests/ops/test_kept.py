"""Every op: what its backward keeps, equal to what torch saves of one run, storage by storage."""

from dataclasses import dataclass

import pytest
import torch

import archcli.ops
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import Call, Execution, In, New, Out
from archcli.wings.serving.launches.memory.op_reader import OpReader
from ops.cases import CASES
from ops.kept_checks import SETTINGS, differences, in_training_form, read

torch.set_num_threads(1)
READY = [name for name, case in CASES.items() if in_training_form(case.op)]


def wrong(case, told=read):
    """By setting, where what is read (or the word of `told`) and torch's run differ."""
    found = {setting: differences(case, how, told) for setting, how in SETTINGS.items()}
    return {setting: unequal for setting, unequal in found.items() if unequal}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", READY)
def test_kept_is_what_torch_saves(name):
    assert wrong(CASES[name]) == {}


def test_all_that_is_kept_is_compared():
    """Without any of the storages that are read, the comparison fails."""
    case = CASES["gelu"]
    assert wrong(case, lambda *call: read(*call) - read(*call)) != {}


def test_no_operation_of_ours_states_it():
    """One that does would be a second model of torch beside its run."""
    kinds = {getattr(archcli.ops, name) for name in archcli.ops.__all__}
    assert [kind.__name__ for kind in kinds if getattr(kind, "kept", Op.kept) is not Op.kept] == []


@dataclass(frozen=True, slots=True, eq=False)
class SquaredGate(Op):
    """An outsider's op: x^2 sigmoid(gate)."""

    name: str

    def shape(self, x, gate):
        return x

    def parts(self, x, gate):
        return (Part("gate", OpClass.ELEMENTWISE, 3, 2, 1),)

    def run(self, torch, weights, x, gate):
        return x.square() * torch.sigmoid(gate)


class Erf(SquaredGate):
    """An outsider's op that calls a function of torch which archcli does not know."""

    def run(self, torch, weights, x, gate):
        return torch.erf(x) * gate


class StatedErf(Erf):
    """The same, which states what its backward keeps."""

    def kept(self, call, x, gate):
        return In(0), In(1), New(x[0] * x[1], call.widths[0])


def kept_by(op, **how):
    shapes = [(2, 3), (2, 3)]
    return OpReader()(op, Call(Execution(**how), (True, True), (2, 2)), shapes).kept


def test_an_outsider_states_nothing():
    """Its x, the square and the sigmoid."""
    assert kept_by(SquaredGate("y")) == (In(0), New(6, 2), New(6, 2))


def test_an_outsider_states_what_is_not_known():
    with pytest.raises(NotImplementedError, match="erf"):
        kept_by(Erf("y"))
    assert kept_by(Erf("y"), assumes=True) == (In(0), In(1), Out(0))
    assert kept_by(StatedErf("y")) == (In(0), In(1), New(6, 2))
