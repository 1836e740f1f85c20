"""Tensors and operations that are not plain: sparse, nested, packed, quantized, of other libraries."""

import pytest
import torch
from torch import nn
from torch.ao.quantization import quantize_dynamic
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.flop_counter import flop_registry, register_flop_formula

import archcli
from archcli.errors import ArchError
from own_modules import Run, flops


def test_a_sparse_matrix_is_counted_by_its_stored_elements():
    def run(x):
        return torch.sparse.mm(torch.eye(8).to_sparse(), x)

    # 8 elements of 64, each by a row of 5
    assert flops(Run(run), torch.empty(8, 5))["matmul_flops"] == 2 * 8 * 5
    assert flops(Run(run), torch.empty(8, 5), run_on="cpu")["matmul_flops"] == 2 * 8 * 5


def test_a_sparse_matrix_that_weights_decide_is_refused():
    module = nn.Sequential(nn.Linear(8, 8), Run(lambda x: torch.sparse.mm(x.to_sparse(), x)))
    with pytest.raises(ArchError, match="looks at values") as refused:
        flops(module, torch.empty(8, 8))
    assert "--run-on cpu" in refused.value.problems[0].hint


def test_a_sparse_buffer_is_weighed_and_counted():
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("edges", torch.eye(6).to_sparse())

        def forward(self, x):
            return torch.sparse.mm(self.edges, x)

    totals = archcli.count_memory(Graph(), torch.empty(6, 4), phase="forward").totals
    # two indices of int64 and a value of fp32 for each of 6 edges
    assert totals["parts"]["buffers"] == 6 * (2 * 8 + 4)
    assert flops(Graph(), torch.empty(6, 4))["matmul_flops"] == 2 * 6 * 4


@pytest.mark.filterwarnings("ignore")  # nested tensors are a prototype
@pytest.mark.parametrize("run_on", ["meta", "cpu"])
def test_a_nested_tensor_is_counted_by_its_rows(run_on):
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, a, b):
            return self.linear(torch.nested.nested_tensor([a, b], layout=torch.jagged)).values()

    inputs = torch.zeros(3, 8), torch.zeros(5, 8)
    assert flops(Nested(), *inputs, run_on=run_on)["matmul_flops"] == 2 * (3 + 5) * 8 * 4


@pytest.mark.long
def test_packed_sequences_run_the_steps_that_their_lengths_say():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(8, 16, batch_first=True)

        def forward(self, x, lengths):
            return self.rnn(pack_padded_sequence(x, lengths, batch_first=True))[1][0]

    inputs = torch.zeros(2, 5, 8), torch.tensor([5, 3])
    assert flops(Packed(), *inputs)["matmul_flops"] == 2 * (5 + 3) * 4 * 16 * (8 + 16)


@pytest.mark.filterwarnings("ignore")  # torch's own quantization is going to leave it
@pytest.mark.parametrize("run_on", ["meta", "cpu"])
def test_quantized_layers_are_products(run_on):
    module = quantize_dynamic(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8)))
    assert flops(module, torch.zeros(3, 8), run_on=run_on)["matmul_flops"] == 2 * 3 * (8 * 4 + 4 * 8)


def test_an_operation_of_an_unknown_library_is_refused_until_it_has_a_formula():
    @torch.library.custom_op("archcli_tests::gram", mutates_args=())
    def gram(x: torch.Tensor) -> torch.Tensor:
        return x @ x.T

    gram.register_fake(lambda x: x.new_empty(x.shape[0], x.shape[0]))
    module = Run(torch.ops.archcli_tests.gram)
    with pytest.raises(ArchError, match="no formula for gram") as refused:
        flops(module, torch.empty(3, 5))
    assert "register_flop_formula" in refused.value.problems[0].hint
    packet = torch.ops.archcli_tests.gram
    register_flop_formula(packet)(lambda x, *_, **__: 2 * x[0] * x[1] * x[0])
    try:
        assert flops(module, torch.empty(3, 5))["matmul_flops"] == 2 * 3 * 5 * 3
    finally:
        del flop_registry[packet]


def test_flex_attention_is_attention_whose_mask_is_not_looked_into():
    heads = tuple(torch.empty(1, 2, 16, 8) for _ in range(3))
    report = archcli.count_flops(Run(flex_attention), heads)
    assert report.totals["matmul_flops"] == 2 * 2 * 2 * 16 * 16 * 8
    assert "values are not known" in " ".join(report.notes)


def test_gradients_of_distances_and_solves_are_counted():
    class Distances(nn.Module):
        def __init__(self):
            super().__init__()
            self.places = nn.Parameter(torch.zeros(5, 8))

        def forward(self, x):
            return torch.cdist(x, self.places)

    assert flops(Distances(), torch.zeros(4, 8), phase="train")["matmul_flops"] == 2 * 2 * 4 * 5 * 8
    solve = Run(lambda a, b: torch.linalg.solve_triangular(a, b, upper=False))
    totals = flops(solve, torch.empty(6, 6), torch.empty(6, 4))
    # row i takes i multiply-adds and a division: 2 (0 + … + 5) + 6 for each of 4 columns
    assert (totals["matmul_flops"], totals["other_flops"]) == (0, 4 * (2 * 15 + 6))


def test_views_of_one_storage_are_weighed_once():
    whole = torch.zeros(4, 6)
    totals = archcli.count_memory(
        Run(lambda a, b: a + b), (whole[:, :3], whole[:, 3:]), phase="forward"
    ).totals
    assert totals["parts"]["inputs"] == 4 * 6 * 4


def test_modules_and_tensors_that_are_not_registered_are_weighed_and_left_alone():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.known = nn.Linear(8, 8, bias=False)
            self.hidden = {"layers": [nn.Linear(8, 8, bias=False)]}
            self.tables = {"a": [torch.zeros(8, 8)]}

        def forward(self, x):
            return self.known(self.hidden["layers"][0](x)) @ self.tables["a"][0]

    module = Hidden()
    weight, table = module.hidden["layers"][0].weight, module.tables["a"][0]
    report = archcli.count_memory(module, torch.zeros(2, 8), phase="train")
    assert report.totals["parts"]["weights"] == 8 * 8 * 4
    assert report.totals["parts"]["buffers"] == 2 * 8 * 8 * 4
    archcli.count_memory(module, torch.zeros(2, 8), phase="train", run_on="cpu")
    assert module.hidden["layers"][0].weight is weight
    assert module.tables["a"][0] is table
    assert weight.grad is None


def test_a_mask_that_is_known_stays_known_when_it_writes_into_what_is_not():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.fill = nn.Linear(8, 8), nn.Parameter(torch.zeros(8))

        def forward(self, x):
            x = self.linear(x)
            x[torch.tensor([True, False, True])] = self.fill
            return x

    # the gradient of what is written is read by the mask again
    assert flops(Masked(), torch.zeros(3, 8), phase="train")["matmul_flops"] == 2 * 2 * 3 * 8 * 8


def test_parameters_need_no_input_and_no_run():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            raise RuntimeError

    assert archcli.count_params(Fails()).totals["params"] == 20
    assert archcli.count_params(torch.jit.script(nn.Linear(4, 4))).totals["params"] == 20


@pytest.mark.filterwarnings("ignore:Sparse")  # of a beta
def test_what_has_no_fake_proposes_real_tensors():
    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("edges", torch.eye(6).to_sparse().to_sparse_csr())

        def forward(self, x):
            return self.edges @ x

    with pytest.raises(ArchError) as refused:
        flops(Rows(), torch.empty(6, 4))
    assert "--run-on cpu" in refused.value.problems[0].hint
    assert flops(Rows(), torch.zeros(6, 4), run_on="cpu")["matmul_flops"] == 2 * 6 * 4
