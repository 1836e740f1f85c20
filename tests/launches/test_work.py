"""FLOPs and bytes of kernels, worked out in the open; functions that are not known are errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest

from archcli.errors import ArchError
from archcli.graph import Op, Tensor
from archcli.load import load
from archcli.modules.spec.request import Request
from archcli.ops.pointwise import _FUNCTIONS
from archcli.wings.serving.launches.dtypes import BY_NAME
from archcli.wings.serving.launches.functions.torch_like import TORCH
from archcli.wings.serving.launches.kernel import KernelCost
from archcli.wings.serving.launches.kernel_tape import KernelTape
from archcli.wings.serving.launches.log import Log, logged
from archcli.wings.serving.launches.tensor import ShapeTensor
from archcli.wings.serving.launches.trace import trace_kernels
from table import every_row

BF16, INT64, BOOL, FP32 = (BY_NAME[name] for name in ("bf16", "int64", "bool", "fp32"))
B, H, T, D = 2, 4, 16, 8
FLASH, EFFICIENT = (f"_scaled_dot_product_{name}_attention" for name in ("flash", "efficient"))


def tensor(*shape, dtype=BF16, trained=False):
    return ShapeTensor(shape, dtype, requires_grad=trained)


def launched(run):
    """The kernels that a function launches on a GPU."""
    with logged(Log()) as log:
        run()
    return [launch.kernel for launch in log.launches.elements()]


@every_row("name", _FUNCTIONS)
def test_the_kernels_of_every_activation_are_known(name):
    kernels = launched(lambda: _FUNCTIONS[name][1](TORCH, tensor(3, 5)))
    assert kernels, f"{name}: add what it calls to archcli/wings/serving/launches/functions/pointwise.py"


PLACES = tensor(6, dtype=INT64)
HEADS = (tensor(B, H, T, D),) * 3
ONE_KERNEL = {
    "a matrix product": (
        lambda: TORCH.nn.functional.linear(tensor(3, 5), tensor(7, 5)),
        KernelCost("mm", 2 * 3 * 5 * 7, 2 * (3 * 5 + 5 * 7), 2 * 3 * 7, "bf16"),
    ),
    # subtract the maximum, exp, add, divide
    "a softmax": (
        lambda: tensor(3, 5).softmax(-1),
        KernelCost("_softmax", 4 * 3 * 5, 2 * 3 * 5, 2 * 3 * 5, "bf16"),
    ),
    "a copy": (lambda: tensor(3, 5).clone(), KernelCost("clone", 0, 2 * 3 * 5, 2 * 3 * 5, "bf16")),
    # two statistics of each row in fp32
    "a norm": (
        lambda: TORCH.nn.functional.layer_norm(tensor(3, 5), (5,), tensor(5)),
        KernelCost("native_layer_norm", 7 * 3 * 5, 2 * (3 * 5 + 5), 2 * 3 * 5 + 2 * 4 * 3, "bf16"),
    ),
    "an RMS norm": (
        lambda: TORCH.rms_norm(tensor(3, 5), (5,), tensor(5)),
        KernelCost("_fused_rms_norm", 4 * 3 * 5, 2 * (3 * 5 + 5), 2 * 3 * 5 + 4 * 3, "bf16"),
    ),
    # rows are read, no table
    "an embedding": (
        lambda: TORCH.nn.functional.embedding(PLACES, tensor(1000, 5)),
        KernelCost("embedding", 0, 2 * 6 * 5 + 8 * 6, 2 * 6 * 5, "bf16"),
    ),
    "rows by number": (
        lambda: tensor(1000, 5).index_select(0, PLACES),
        KernelCost("index_select", 0, 2 * 6 * 5 + 8 * 6, 2 * 6 * 5, "bf16"),
    ),
    "rows by index": (
        lambda: tensor(1000, 5)[PLACES],
        KernelCost("index", 0, 2 * 6 * 5 + 8 * 6, 2 * 6 * 5, "bf16"),
    ),
    # all is copied; places are read and written, what is added is read
    "sums at places": (
        lambda: tensor(9, 5).index_add(0, PLACES, tensor(6, 5)),
        KernelCost("index_add", 6 * 5, 2 * 9 * 5 + 2 * 2 * 6 * 5 + 8 * 6, 2 * 9 * 5 + 2 * 6 * 5, "bf16"),
    ),
    # the causal half; a sum for each row in fp32, and two seeds
    "fused attention": (
        lambda: TORCH.scaled_dot_product_attention(*HEADS, is_causal=True),
        KernelCost(
            FLASH,
            2 * B * H * (T * (T + 1) // 2) * (D + D),
            3 * 2 * B * H * T * D,
            2 * B * H * T * D + 4 * B * H * T + 8 * 2,
            "bf16",
        ),
    ),
}


@every_row(("run", "kernel"), ONE_KERNEL.values(), ids=ONE_KERNEL)
def test_a_kernel_does_what_was_worked_out(run, kernel):
    assert launched(run) == [kernel]


def test_a_mask_that_is_written_out_is_read_and_all_pairs_computed():
    mask = tensor(T, T, dtype=BOOL)
    *made, kernel = launched(lambda: TORCH.scaled_dot_product_attention(*HEADS, attn_mask=mask))
    assert [part.name for part in made] == ["scalar_tensor", "scalar_tensor", "where"]
    assert (kernel.name, kernel.flops) == (EFFICIENT, 2 * B * H * T * T * (D + D))
    assert kernel.read == 3 * 2 * B * H * T * D + 2 * T * T


def test_a_fourier_transform_has_5_n_log2_n_flops():
    """Of 2 x 8 x 4 numbers along 8 and 4: 3 and 2 stages. Each complex number takes 8 bytes."""
    copied, kernel = launched(lambda: TORCH.fft.fftn(tensor(2, 8, 4, dtype=FP32), dim=(1, 2)).real)
    assert copied == KernelCost("_to_copy", 0, 4 * 64, 8 * 64, "fp32")
    assert kernel == KernelCost("_fft_c2c", 5 * 64 * (3 + 2), 8 * 64, 8 * 64, "fp32")


SPARSE = """
vocab_size: 96
d_model: 16
norm: {kind: rmsnorm}
groups:
  - n_layers: 1
    layer:
      kind: pre_norm
      attention: {kind: mha, n_heads: 2, position: {kind: rope}}
      ffn: {kind: moe, n_experts: 4, top_k: 2, expert: {kind: glu, activation: silu, d_ff: 32}}
"""


@pytest.mark.parametrize(("tokens", "reached"), [(32, 4), (1, 2)])
def test_a_grouped_product_reads_each_expert_that_is_reached_once(tmp_path, tokens, reached):
    """Two experts of four for each token: so many rows by 16 x 32; where each expert's end, in int32."""
    path = tmp_path / "sparse.yaml"
    path.write_text(SPARSE)
    runs = trace_kernels(load(path), Request("forward", 1, tokens))
    up, *_ = [run.kernel for run in runs if run.path.endswith("experts.up_proj")]
    rows = tokens * 2
    read = 2 * (rows * 16 + reached * 16 * 32) + 4 * 4
    assert up == KernelCost("_grouped_mm", 2 * rows * 16 * 32, read, 2 * rows * 32, "bf16")


def test_a_backward_has_a_product_for_each_operand():
    """Of 3 x 5 by 5 x 7: two products of as many FLOPs."""
    x, weight = tensor(3, 5, trained=True), tensor(7, 5, trained=True)
    with logged(Log()) as log:
        y = TORCH.nn.functional.linear(x, weight)
        of_x, of_weight, of_bias = log.nodes[-1].backward(tensor(*y.shape))
    assert [launch.kernel.flops for launch in log.launches.elements()] == [2 * 3 * 5 * 7] * 3
    assert (of_x.shape, of_weight.shape, of_bias) == ((3, 5), (5, 7), None)


def test_a_slice_of_all_that_is_counted_from_the_end_is_recorded_as_torch_does():
    x = tensor(3, 1, trained=True)
    with logged(Log()) as log:
        assert x[:, 0:] is x
        assert x[:, -1:].shape == x.shape
    assert [node.inputs for node in log.nodes] == [(x,)]


def test_an_rms_norm_of_what_lies_as_images_do_runs_step_by_step():
    """The second of four axes innermost, with the last axis normalized: torch has no kernel for it."""
    x = ShapeTensor((2, 3, 4, 5), BF16, (60, 1, 15, 3))
    steps = ["_to_copy", "pow", "mean", "add", "rsqrt", "mul", "mul", "_to_copy"]
    assert [kernel.name for kernel in launched(lambda: TORCH.rms_norm(x, (5,), tensor(5)))] == steps


@dataclass(frozen=True, slots=True, eq=False)
class OutsidersOp(Op):
    """An operation of someone else's, which calls torch in its own way."""

    name: str
    calls: Callable
    zero_cost_reason: ClassVar[str] = "a test"

    def shape(self, x):
        return x

    def parts(self, x):
        return ()

    def run(self, torch, weights, x):
        return self.calls(torch, x)


UNKNOWN = {
    "function": (lambda torch, x: torch.erfinv(x), "kernels of torch.erfinv are not known"),
    "method": (lambda torch, x: x.polygamma(2), "kernels of torch.Tensor.polygamma are not known"),
    "option": (lambda torch, x: torch.exp(x, out=x), ".*out.*archcli profile"),
    "option of an activation": (lambda torch, x: torch.nn.functional.elu(x, inplace=True), ".*inplace.*"),
}


@pytest.mark.parametrize(("calls", "words"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_of_torch_is_an_error_that_names_it(calls, words):
    tape = KernelTape([])
    with logged(tape.log), pytest.raises(ArchError, match=f"odd: {words}"):
        OutsidersOp("odd", calls)(Tensor(tape, tensor(3, 5)))
