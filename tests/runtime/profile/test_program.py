"""Kernels of a step by module and phase: beside torch.profiler's own sums, and by torch's registry."""

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from archcli.wings.running.recording.events import events_of
from archcli.wings.running.recording.kernels import CompiledGraph, GraphOp, Launch
from archcli.wings.running.recording.program import OPTIMIZER, Watching
from archcli.wings.running.runtime.program.compiled import _kernel, _named, _nearest, holder
from archcli.wings.running.runtime.program.counting import StepCounting
from archcli.wings.running.runtime.program.kernels import is_kernel, placed_times
from archcli.wings.running.runtime.program.modules import ModuleNames, ModuleRanges
from archcli.wings.running.runtime.program.watch import Watch

KERNELS = {
    "aten::addmm": True,
    "aten::linear": False,  # taken apart, though `linear.out` has a kernel
    "aten::matmul": False,
    "aten::add_": True,
    "aten::to": False,
    "aten::_to_copy": True,
    "aten::t": False,  # a view
    "aten::detach": False,
    "aten::embedding": True,
    "aten::cross_entropy_loss": False,
    "aten::_scaled_dot_product_flash_attention_for_cpu": True,
    "aten::_foreach_add_": True,
    "c10d::allreduce_": True,
    "profiler::_record_function_enter_new": False,
    "autograd::engine::evaluate_function: AddmmBackward0": False,
    "Optimizer.step#AdamW.step": False,
    "a range of the program's": False,
    "copy": False,
}


def test_kernels_are_what_the_dispatcher_does_not_take_apart():
    assert {name: is_kernel(name) for name in KERNELS} == KERNELS


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.layers = nn.ModuleList([nn.Linear(32, 32) for _ in range(3)])
        self.head = nn.Linear(32, 50)

    def forward(self, x):
        x = self.embedding(x)
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=False)
        return self.head(x)


@pytest.fixture
def step():
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randint(0, 50, (8, 64))

    def run():
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run()
    return run


def traced(step):
    """torch's own profile of a step, and ours of the same trace by path, phase and name."""
    modules = ModuleRanges()
    with profile(activities=[ProfilerActivity.CPU]) as theirs:
        modules.start()
        step()
        modules.end()
    events = [*events_of(theirs.profiler)]
    spent, _ = placed_times(events, modules.log.autograd.owner, device=False)
    names = ModuleNames(modules.roots)
    return theirs, {(names.path(key.path), key.phase, key.name): time for key, time in spent.items()}


def test_times_are_torch_profilers_own(step):
    theirs, ours = traced(step)
    wall_us = sum(ns for ns, _ in ours.values()) / 1e3
    total = {it.key.rpartition("::")[2].rstrip("_"): it for it in theirs.key_averages() if "aten::" in it.key}
    for name in ("addmm", "mm", "embedding", "embedding_dense_backward", "_log_softmax", "nll_loss_forward"):
        mine = [time for (_, _, of), time in ours.items() if of == name]
        assert sum(time.calls for time in mine) == total[name].count, name
        # within a point of the kernels' time; torch rounds to microseconds
        assert abs(sum(time.ns for time in mine) / 1e3 - total[name].cpu_time_total) <= wall_us / 100, name


def test_every_kernel_has_its_module_and_phase(step):
    _, ours = traced(step)
    calls = {key: time.calls for key, time in ours.items()}
    assert calls["layers.0", "forward", "addmm"] == 1
    # begun again within the backward, then its two products
    assert calls["layers.0", "backward", "addmm"] == 1
    assert calls["layers.0", "backward", "mm"] == 2
    assert calls["head", "forward", "addmm"] == 1
    assert calls["embedding", "backward", "embedding_dense_backward"] == 1
    assert calls["", "forward", "_log_softmax"] == 1
    assert calls["", "backward", "_log_softmax_backward_data"] == 1
    assert sum(number for (path, *_), number in calls.items() if path == OPTIMIZER) >= len("weights")


def test_flops_are_those_of_the_products(step):
    modules = ModuleRanges()
    counting = StepCounting(modules)
    counting.begin()
    step()
    counting.end()
    tokens, width, vocabulary = 8 * 64, 32, 50
    linear, head = 2 * tokens * width * width, 2 * tokens * width * vocabulary
    # a recomputed forward stops before its last operation, here its only one; a backward has two products
    assert counting.step.matmul_flops == 3 * (3 * linear) + 3 * head
    assert counting.step.by_dtype == {"fp32": counting.step.matmul_flops}
    assert counting.tokens == (8, 64)
    names = ModuleNames(modules.roots)
    by_place = counting.step.by_place.items()
    flops = {(names.path(label), phase, of): number for (label, phase, of), number in by_place}
    assert flops["head", "forward", "contraction"] == head
    assert flops["layers.2", "backward", "contraction"] == 2 * linear


def test_products_that_torch_has_no_formula_for_are_counted():
    counting = StepCounting(ModuleRanges())
    lstm = nn.LSTM(8, 16)
    counting.begin()
    with torch.no_grad():
        lstm(torch.randn(3, 2, 8))
    counting.end()
    # six inputs, each by four gates' weights of 16 by 8 and 16 by 16
    assert counting.step.matmul_flops == 2 * 6 * 4 * 16 * (8 + 16)
    assert not counting.step.uncounted


@pytest.mark.parametrize("how", [{"foreach": True}, {"fused": True}])
def test_steps_of_optimizers_are_no_products(how):
    counting = StepCounting(ModuleRanges())
    weights = [nn.Parameter(torch.ones(4, 3)), nn.Parameter(torch.ones(5))]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.AdamW(weights, **how)
    counting.begin()
    nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()
    counting.end()
    assert counting.step.matmul_flops == 0
    assert not counting.step.uncounted
    assert counting.step.other_flops >= sum(weight.numel() for weight in weights)


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_foreach_mm"), reason="of later versions of torch")
def test_products_of_lists_are_counted():
    counting = StepCounting(ModuleRanges())
    counting.begin()
    torch.ops.aten._foreach_mm([torch.ones(2, 3), torch.ones(4, 5)], [torch.ones(3, 6), torch.ones(5, 7)])
    counting.end()
    assert counting.step.matmul_flops == 2 * 2 * 3 * 6 + 2 * 4 * 5 * 7


@torch.library.custom_op("archcli_tests::meets", mutates_args=())
def meets(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product that torch knows nothing of."""
    return a @ b


def test_products_without_a_formula_are_named():
    counting = StepCounting(ModuleRanges())
    counting.begin()
    with torch.no_grad():
        meets(torch.ones(4, 4), torch.ones(4, 4))
    counting.end()
    assert counting.step.uncounted == {"meets": 1}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_operations_that_take_functions_run_and_are_counted():
    counting = StepCounting(ModuleRanges())
    q = torch.randn(1, 2, 8, 16)
    alone = flex_attention(q, q, q)
    counting.begin()
    counted = flex_attention(q, q, q)
    counting.end()
    assert torch.equal(alone, counted)
    assert counting.step.matmul_flops == 2 * (2 * 2 * 8 * 8 * 16)


def test_attention_and_products_of_one_module_are_counted_apart():
    counting = StepCounting(ModuleRanges())
    x = torch.randn(1, 2, 8, 16)
    counting.begin()
    nn.functional.scaled_dot_product_attention(x, x, x) @ torch.ones(16, 4)
    counting.end()
    by_class = {of: flops for (_, _, of), flops in counting.step.by_place.items()}
    attention = 2 * (2 * 2 * 8 * 8 * 16)
    assert by_class == {"fused_attention": attention, "contraction": 2 * (2 * 8) * 16 * 4}


def test_inference_mode_hides_no_product():
    counting = StepCounting(ModuleRanges())
    linear = nn.Linear(16, 4)
    counting.begin()
    with torch.inference_mode():
        linear(torch.randn(8, 16))
    counting.end()
    assert counting.step.matmul_flops == 2 * 8 * 16 * 4
    assert not counting.step.uncounted


def test_a_watch_leaves_no_hook_and_never_fails_the_program(step, monkeypatch):
    watch = Watch(Watching(warm_up=1, steps=1))
    watch.begin()
    try:
        monkeypatch.setattr(watch.tracer, "begin", lambda: 1 / 0)
        for _ in range(6):
            step()
    finally:
        watch.hooks.remove()
    recording = watch.recording()
    assert recording.steps == 6
    assert recording.failure == "ZeroDivisionError: division by zero"
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_names_of_modules_in_a_compiled_graph():
    assert _named("L['self'].transformer.h.0.attn", "models.gpt.Attention") == (
        "transformer.h.0.attn",
        "Attention",
    )
    assert _named("L['self']._modules['net']._modules['0']", nn.Linear) == ("net.0", "Linear")
    assert _named("L['model']._orig_mod.net[1]", nn.ReLU) == ("net.1", "ReLU")
    assert _named("L['self']", nn.Linear) == ("", "Linear")


def test_a_fused_kernel_lies_where_all_its_modules_do():
    assert holder(["h.0.norm", "h.0.up"]) == "h.0"
    assert holder(["h.0.norm"]) == "h.0.norm"
    assert holder(["h.0.norm", "head"]) == "h + head"
    launch = Launch("graph_0_cpp_fused_0", (GraphOp("h.0.norm", "var_mean"), GraphOp("h.0", "add")), False)
    kernel = _kernel(launch, CompiledGraph(backward=True))
    assert (kernel.key.path, kernel.key.phase, kernel.op_class) == ("h.0", "backward", "fused_kernels")


def test_a_call_is_of_the_graph_whose_kernels_it_runs():
    def graph(*names):
        of = CompiledGraph(backward=False)
        return [_kernel(Launch(name, (GraphOp("a", "add"),), False), of) for name in names]

    first, second = graph("graph_0_a", "addmm"), graph("graph_1_a", "addmm", "graph_1_b")
    assert _nearest(["graph_1_a", "expand", "addmm", "graph_1_b"], [first, second]) == 1
    assert _nearest(["graph_0_a", "addmm"], [first, second]) == 0
