"""Compiled kernels of a tiny decoder, with their FLOPs and bytes in the open.

V 50, D 8, 3 layers, 4 query heads and 2 kv heads of width 2, F 12; B 2, T 5, fp32, so N = 10 tokens.
"""

import re
import subprocess
import sys

import pytest

from archcli.graph.kept import Execution
from archcli.load.source import load
from archcli.modules.spec.request import Request
from archcli.wings.serving.launches.compiled import compiled_kernels
from archcli.wings.serving.launches.trace import trace_kernels
from archcli.wings.serving.recorded.operations import JOIN
from small import decoder

CPU = Execution("cpu", True, 4)
N, D, F, V, W = 10, 8, 12, 50, 4
NORM = 4 * N * D + 2 * N
"""pow, mean and two products for each element; eps and rsqrt for each token."""


def traced(trace, phase="forward"):
    return trace(decoder(), Request(phase, 2, 5), CPU)


@pytest.fixture(scope="module")
def groups():
    return {run.path: run for run in traced(compiled_kernels)}


def test_an_embedding_is_computed_within_the_norm_that_reads_it(groups):
    kernel = groups["embedding.tokens + layers.0.attention_norm"].kernel
    # the ids, a row of the table for each, the norm's weight; the norm's result alone is written
    assert (kernel.flops, kernel.read, kernel.written) == (NORM, N * 8 + N * D * W + D * W, N * D * W)


def test_a_residual_is_computed_within_the_norm_behind_it(groups):
    run = groups["layers.0.attention_residual + layers.0.ffn_norm"]
    assert run.op_class == "fused_kernels"
    # the embedding once more, what attention returns, the norm's weight
    read = N * 8 + N * D * W + N * D * W + D * W
    assert (run.kernel.flops, run.kernel.read, run.kernel.written) == (N * D + NORM, read, N * D * W)


def test_a_gate_and_its_product_are_one_kernel(groups):
    run = groups["layers.1.ffn.activation + layers.1.ffn.gated"]
    assert run.op_class == "elementwise"
    assert (run.kernel.flops, run.kernel.read, run.kernel.written) == (2 * N * F, 2 * N * F * W, N * F * W)


def test_products_and_attention_are_kernels_of_their_own(groups):
    alone = {run.path: run for run in traced(trace_kernels) if run.op_class == "contraction"}
    assert alone
    for path, run in alone.items():  # one layer stands for the three, which are compiled together
        for layer in range(run.times):
            of_layer = groups[path.replace("layers.0", f"layers.{layer}")]
            assert of_layer._replace(path=path, times=run.times) == run
    for layer in range(3):
        assert groups[f"layers.{layer}.attention.attend"].op_class == "fused_attention"


def test_a_residual_is_written_once_it_sums_more_than_four_tensors(groups):
    written = [
        run.kernel.written // (N * D * W)
        for path, run in groups.items()
        if path.split(JOIN)[0].endswith("residual")
    ]
    # ids, table, and of the first layer two results are four; with the third result the sum is written
    assert written == [1, 1, 2, 1, 1, 1]


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_a_cpu_runs_all_between_two_calls_of_a_library_in_one_launch(backend):
    """A CPU computes what is joined at once, into its place; a GPU right before the call that reads it."""
    model, layer = load("smollm2-135m").model, "layers.0.attention"
    runs = compiled_kernels(model, Request("forward", 2, 16), Execution(backend))
    order = [run.path for run in runs if layer in run.path][1:]
    q, k, v = (f"{layer}.{name}_proj" for name in "qkv")
    rotated = [f"rotary.0 + {layer}.q_rotate", f"{layer}.k_rotate"]
    expected = {"cpu": [q, k, JOIN.join(rotated), v], "cuda": [q, k, v, *rotated]}[backend]
    assert order[: len(expected)] == expected


@pytest.mark.parametrize("phase", ["forward", "prefill", "decode", "train"])
def test_groups_have_all_flops_and_move_less(phase):
    eager, compiled = traced(trace_kernels, phase), traced(compiled_kernels, phase)

    def total(runs, name):
        return sum(run.times * getattr(run.kernel, name) for run in runs)

    if phase != "train":  # what nobody reads is not computed: gradients of inputs that have none
        assert total(compiled, "flops") == total(eager, "flops")
    assert total(compiled, "flops") <= total(eager, "flops")
    assert total(compiled, "bytes") < total(eager, "bytes")
    assert sum(run.times for run in compiled) < sum(run.times for run in eager)
    paths = {re.sub(r"layers\.\d", "layers.0", path) for run in compiled for path in run.path.split(JOIN)}
    assert paths <= {run.path for run in eager}


@pytest.mark.long
def test_kernels_of_a_compiled_pass_have_one_order():
    """Memory is told apart by its identity: in another process the order of a set would be another."""
    of_model = "'jamba-1.5-mini', 'h100-sxm', engine='none', compiled=True"
    command = f"import archcli; print([row['path'] for row in archcli.predict({of_model}).rows])"

    def answer():
        done = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, timeout=300)
        return done.stdout

    answers = {answer() for _ in range(3)}
    assert len(answers) == 1
