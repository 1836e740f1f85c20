"""Products of routed experts.

torch's one kernel, one expert after another, and gathered matrices say the same, forward and back.
"""

import pytest
import torch

from archcli.ops import Linear
from archcli.wings.running.runtime.model import leaves
from archcli.wings.running.runtime.model.leaves import Assignment, StackedLinear

torch.set_num_threads(1)
E, IN, OUT = 5, 16, 8
TOKENS = {"every expert": [0, 0, 1, 2, 2, 2, 3, 4], "some": [1, 1, 1, 3], "one": [4, 4]}


def made(dtype=torch.float32):
    torch.manual_seed(0)
    stack = StackedLinear(Linear("up_proj", OUT), [(1, IN)], E).to(dtype)
    torch.nn.init.normal_(stack.weight)
    return stack


def outcome(stack, expert_of, seed, form="grouped"):
    """(result, gradient of the tokens, gradient of the matrices), of the incoming gradient `seed`."""
    stack.form = form
    stack.zero_grad()
    x = (
        torch.randn(len(expert_of), IN, generator=torch.Generator().manual_seed(1))
        .to(stack.weight.dtype)
        .requires_grad_()
    )
    y = stack(x, routed=Assignment(expert_of))
    seed(y).backward()
    return y.detach(), x.grad, stack.weight.grad


SEEDS = {
    "dense": lambda y: y.square().sum(),
    "expanded": lambda y: y.sum(),
    "transposed": lambda y: (y.T.contiguous() @ torch.ones(len(y), 2, dtype=y.dtype)).sum(),
    "beginning anywhere": lambda y: (torch.cat([y.flatten(), y.new_zeros(3)]).roll(3)[3:] ** 2).sum(),
}


@pytest.fixture
def kernels(monkeypatch):
    """How often torch's one kernel was called."""
    calls, ordinary = [], torch.nn.functional.grouped_mm
    monkeypatch.setattr(
        torch.nn.functional,
        "grouped_mm",
        lambda *args, **options: calls.append(1) or ordinary(*args, **options),
    )
    return calls


@pytest.mark.skipif(not leaves.HAS_GROUPED, reason="this torch has no grouped product")
@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)
@pytest.mark.parametrize("tokens", TOKENS.values(), ids=TOKENS)
def test_one_kernel_and_one_expert_after_another_are_equal(monkeypatch, kernels, tokens, seed):
    expert_of, stack = torch.tensor(tokens), made()
    together = outcome(stack, expert_of, seed)
    assert kernels == [1]
    monkeypatch.setattr(leaves, "HAS_GROUPED", False)
    apart = outcome(stack, expert_of, seed)
    assert kernels == [1]
    gathered = outcome(stack, expert_of, seed, "gather")
    for one, other, third in zip(together, apart, gathered, strict=True):
        torch.testing.assert_close(one, other)
        torch.testing.assert_close(one, third)
    idle = sorted(set(range(E)) - set(tokens))
    assert not together[2][idle].any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("width", [6, 16])
def test_what_the_kernel_does_not_take_is_multiplied_all_the_same(dtype, width):
    torch.manual_seed(0)
    stack = StackedLinear(Linear("up_proj", 3), [(1, width)], E).to(dtype)
    torch.nn.init.normal_(stack.weight)
    expert_of, x = torch.tensor([0, 2, 2, 4]), torch.randn(4, width, dtype=dtype)
    expected = torch.stack([stack.weight[e] @ row for e, row in zip(expert_of, x, strict=True)])
    assert torch.allclose(stack(x, routed=Assignment(expert_of)), expected, rtol=1e-5, atol=1e-6)


def test_sizes_and_ends_are_those_of_all_experts():
    routed = Assignment(torch.tensor([1, 1, 1, 3]))
    assert routed.sizes(E).tolist() == [0, 3, 0, 1, 0]
    assert routed.ends(E).tolist() == [0, 3, 3, 4, 4]
    assert routed.ends(E).dtype == torch.int32
