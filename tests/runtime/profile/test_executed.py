"""What an operation of torch did, against figures worked out from its shapes.

The census of a whole pass against the rows.
"""

import pytest
import torch

from archcli.graph import OpClass
from archcli.wings.running.runtime.profile.census import Executed, executed
from recordings import MODELS, profiled
from table import every_row

X, W = torch.zeros(6, 4), torch.zeros(4, 5)
aten = torch.ops.aten
DID = {
    "a product": (aten.mm.default, (X, W), Executed(2 * 6 * 4 * 5, 24 + 20, 30)),
    "a sum with a bias": (
        aten.addmm.default,
        (torch.zeros(5), X, W),
        Executed(2 * 6 * 4 * 5, 5 + 24 + 20, 30),
    ),
    "element by element": (aten.add.Tensor, (X, X), Executed(24, 48, 24)),
    "a row for all": (aten.mul.Tensor, (X, torch.zeros(4).expand(6, 4)), Executed(24, 24 + 4, 24)),
    "a reduction": (aten.sum.dim_IntList, (X, [0]), Executed(24, 24, 4)),
    "scaled before": (aten._softmax.default, (X, -1, False), Executed(4 * 24, 24, 24)),
    "a norm": (
        aten.native_layer_norm.default,
        (X, [4], torch.zeros(4), torch.zeros(4), 1e-5),
        Executed(7 * 24, 24 + 8, 24 + 6 + 6),
    ),
    "a norm without a mean": (  # square, sum, scale, weight
        aten._fused_rms_norm.default,
        (X, [4], torch.zeros(4), 1e-5),
        Executed(4 * 24, 24 + 4, 24 + 6),
    ),
    "not scaled": (aten._log_softmax.default, (X, -1, False), Executed(4 * 24, 24, 24)),
    "a transform": (  # 5 for each of log2 8 + log2 4 stages
        aten._fft_c2c.default,
        (torch.zeros(2, 8, 4, dtype=torch.complex64), [1, 2], 0, True),
        Executed(5 * 64 * (3 + 2), 64, 64),
    ),
    "a maximum": (aten.relu.default, (X,), Executed(0, 24, 24)),
    "a choice": (aten.masked_fill.Scalar, (X, X > 0, 0.0), Executed(0, 48, 24)),
    "a copy": (aten.clone.default, (X,), Executed(0, 24, 24)),
    "written over": (aten.bernoulli_.float, (torch.zeros(3, 2), 0.5), Executed(0, 0, 6)),
    "copied onto": (aten.copy_.default, (torch.zeros(6, 4), X), Executed(0, 24, 24)),
    "added in place": (aten.add_.Tensor, (torch.zeros(6, 4), X), Executed(24, 48, 24)),
}


@every_row(("func", "args", "did"), DID.values(), ids=DID)
def test_an_operation_did_what_was_worked_out(func, args, did):
    name = func._schema.name.removeprefix("aten::").rstrip("_")
    assert executed(func, name, args, {}, func(*args)) == did


def test_flops_of_a_fused_kernel_that_torch_has_no_formula_for_are_unknown():
    func = aten._scaled_dot_product_flash_attention_for_cpu.default
    q = torch.zeros(1, 2, 3, 4)
    did = executed(func, "_scaled_dot_product_flash_attention_for_cpu", (q, q, q), {}, func(q, q, q))
    assert did.flops is None
    assert did.plus(Executed(1, 1, 1)).flops is None


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("phase", ["forward", "train"])
def test_products_that_were_executed_are_those_of_the_rows(phase):
    counted, recording = profiled(MODELS["gpt2"], phase, "eager")
    ours = sum(cost.flops for cost in counted.costs(unmasked=True) if cost.op_class is OpClass.CONTRACTION)
    assert sum(each.flops for each in recording.census if each.op_class == "contraction") == ours > 0
    assert sum(each.calls for each in recording.census) == recording.executed


@pytest.mark.long
def test_gradients_that_meet_are_elementwise_in_the_census_too():
    recording = profiled(MODELS["gpt2"], "train", "eager")[1]
    found = {(each.name, each.op_class) for each in recording.census if each.phase == "sums"}
    assert found == {("add", "elementwise")}
