"""FLOPs and bytes of kernels, worked out in the open; functions that are not known are errors."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from archcli.errors import ArchError
from archcli.graph import Op, Tensor
from archcli.kernels import trace_kernels
from archcli.kernels.dtypes import BY_NAME
from archcli.kernels.log import Log, logged
from archcli.kernels.tape import KernelTape
from archcli.kernels.tensor import ShapeTensor
from archcli.kernels.torch_like import TORCH
from archcli.load import load
from archcli.modules.request import Request

BF16, INT64, BOOL = (BY_NAME[name] for name in ("bf16", "int64", "bool"))
B, H, T, D = 2, 4, 16, 8


def tensor(*shape, dtype=BF16, trained=False):
    return ShapeTensor(shape, dtype, requires_grad=trained)


def launched(run, backend="cuda"):
    """The kernels that a function launches."""
    log = Log(backend)
    with logged(log):
        run()
    return [launch.kernel for launch in log.launches.elements()]


def test_a_matrix_product():
    (kernel,) = launched(lambda: TORCH.nn.functional.linear(tensor(3, 5), tensor(7, 5)))
    assert kernel == ("mm", 2 * 3 * 5 * 7, 2 * (3 * 5 + 5 * 7), 2 * 3 * 7, "bf16")


def test_a_softmax_reads_and_writes_each_element_once():
    (kernel,) = launched(lambda: tensor(3, 5).softmax(-1))
    assert (kernel.read, kernel.written) == (2 * 3 * 5, 2 * 3 * 5)


def test_rms_norm_writes_one_statistic_for_each_row():
    (kernel,) = launched(lambda: TORCH.rms_norm(tensor(3, 5), (5,), tensor(5)))
    assert (kernel.name, kernel.read, kernel.written) == ("_fused_rms_norm", 2 * (15 + 5), 2 * 15 + 4 * 3)


def test_an_embedding_reads_rows_and_no_table():
    (kernel,) = launched(lambda: TORCH.nn.functional.embedding(tensor(6, dtype=INT64), tensor(1000, 5)))
    assert (kernel.flops, kernel.read, kernel.written) == (0, 2 * 6 * 5 + 8 * 6, 2 * 6 * 5)


def test_lookups_read_what_they_take():
    rows, places = tensor(1000, 5), tensor(6, dtype=INT64)
    for run in (lambda: rows.index_select(0, places), lambda: rows[places]):
        (kernel,) = launched(run)
        assert (kernel.flops, kernel.read, kernel.written) == (0, 2 * 6 * 5 + 8 * 6, 2 * 6 * 5)


def test_what_is_added_at_places_reads_them_twice_and_copies_the_rest():
    (kernel,) = launched(lambda: tensor(9, 5).index_add(0, tensor(6, dtype=INT64), tensor(6, 5)))
    copied, added = 2 * 9 * 5, 2 * 6 * 5
    assert (kernel.flops, kernel.read, kernel.written) == (6 * 5, copied + 2 * added + 8 * 6, copied + added)


def heads(width=D, n=H):
    return tensor(B, n, T, width)


def test_fused_attention_computes_the_causal_half():
    """Flash attention reads q, k and v; it writes the result, a sum for each row in fp32 and two seeds."""
    (kernel,) = launched(
        lambda: TORCH.scaled_dot_product_attention(heads(), heads(), heads(), is_causal=True)
    )
    assert kernel.name == "_scaled_dot_product_flash_attention"
    assert kernel.flops == 2 * B * H * (T * (T + 1) // 2) * (D + D)
    assert kernel.read == 2 * 3 * B * H * T * D
    assert kernel.written == 2 * B * H * T * D + 4 * B * H * T + 8 * 2


def test_a_mask_that_is_written_out_is_read_and_all_pairs_computed():
    mask = tensor(T, T, dtype=BOOL)
    *made, kernel = launched(
        lambda: TORCH.scaled_dot_product_attention(heads(), heads(), heads(), attn_mask=mask)
    )
    assert kernel.name == "_scaled_dot_product_efficient_attention"
    assert [one.name for one in made] == ["scalar_tensor", "scalar_tensor", "where"]
    assert kernel.flops == 2 * B * H * T * T * (D + D)
    assert kernel.read == 2 * 3 * B * H * T * D + 2 * T * T


def test_a_grouped_product_reads_each_expert_once():
    """Two experts of four for each of 32 tokens: 64 rows by matrices of 16 x 32."""
    text = {
        "vocab_size": 96,
        "d_model": 16,
        "norm": {"kind": "rmsnorm"},
        "groups": [
            {
                "n_layers": 1,
                "layer": {
                    "kind": "pre_norm",
                    "attention": {"kind": "mha", "n_heads": 2, "position": {"kind": "rope"}},
                    "ffn": {
                        "kind": "moe",
                        "n_experts": 4,
                        "top_k": 2,
                        "expert": {"kind": "glu", "activation": "silu", "d_ff": 32},
                    },
                },
            }
        ],
    }
    runs = trace_kernels(load(text), Request("forward", 2, 16))
    up, *_ = [run.kernel for run in runs if run.path.endswith("experts.up_proj")]
    rows = 2 * 16 * 2
    assert up.name == "_grouped_mm"
    assert up.flops == 2 * rows * 16 * 32
    assert up.read == 2 * (rows * 16 + 4 * 16 * 32) + 4 * 4  # and the ends of the experts' rows in int32
    assert up.written == 2 * rows * 32


def test_a_backward_has_a_product_for_each_operand():
    """Of 3 x 5 by 5 x 7: two products of as many FLOPs."""
    x, weight = tensor(3, 5, trained=True), tensor(7, 5, trained=True)
    log = Log()
    with logged(log):
        y = TORCH.nn.functional.linear(x, weight)
        found = log.nodes[-1].backward(tensor(*y.shape))
    assert [launch.kernel.flops for launch in log.launches.elements()] == [2 * 3 * 5 * 7] * 3
    assert [gradient.shape for gradient in found] == [(3, 5), (5, 7)]


@dataclass(frozen=True, slots=True, eq=False)
class Unheard(Op):
    """An operation of someone else's that calls a function of torch nobody described."""

    name: str
    zero_cost_reason: ClassVar[str] = "a test"

    def shape(self, x):
        return x

    def parts(self, x):
        return ()

    def run(self, torch, weights, x):
        return torch.erfinv(x)


class UnheardMethod(Unheard):
    def run(self, torch, weights, x):
        return x.polygamma(2)


class UnheardOption(Unheard):
    def run(self, torch, weights, x):
        return torch.exp(x, out=x)


@pytest.mark.parametrize(
    ("op", "function"), [(Unheard, "torch.erfinv"), (UnheardMethod, "torch.Tensor.polygamma")]
)
def test_an_unknown_function_is_an_error_that_names_it(op, function):
    tape = KernelTape([])
    with logged(tape.log), pytest.raises(ArchError, match=f"odd: kernels of {function} are not known"):
        op("odd")(Tensor(tape, tensor(3, 5)))


def test_an_unknown_option_of_a_known_function_is_an_error_too():
    tape = KernelTape([])
    with logged(tape.log), pytest.raises(ArchError, match=r"odd: .*out.*archcli profile"):
        UnheardOption("odd")(Tensor(tape, tensor(3, 5)))
