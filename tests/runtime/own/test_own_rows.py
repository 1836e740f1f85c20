"""Rows of any module: paths, equal layers, ties, groups, and a module that stays as it was."""

import re

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import archcli
from archcli.errors import ArchError


class Tied(nn.Module):
    """A table, layers of two kinds, and a head that is the table."""

    def __init__(self, layers=4):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8, bias=i != 1) for i in range(layers))
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


IDS = torch.zeros(1, 3, dtype=torch.int64)


def test_equal_layers_stand_once_and_others_apart():
    rows = {row.path: row for row in archcli.rows(Tied(), IDS)}
    assert [path for path in rows if "layers" in path] == ["layers.0,2-3", "layers.1"]
    assert rows["layers.0,2-3"].times == 3
    assert rows["layers.0,2-3"].params == 3 * (8 * 8 + 8)
    assert {
        row.path for row in archcli.rows(nn.Sequential(*[nn.Linear(2, 2)] * 1, nn.ReLU()), torch.empty(1, 2))
    } == {
        "0",
        "1",
    }


def test_nested_repetitions_are_starred_at_each_level():
    module = nn.Sequential(*[nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)]) for _ in range(2)])
    (row,) = archcli.rows(module, torch.empty(1, 4))
    assert (row.path, row.times, row.params) == ("*.*", 6, 6 * 20)
    report = archcli.summary(module, torch.empty(1, 4), depth=1)
    # two Sequentials, not six
    assert [(x["path"], x["op"], x["times"]) for x in report.tables[0].records] == [("*", "Sequential", 2)]


def test_tied_weights_count_once_and_are_named():
    module = Tied()
    report = archcli.count_params(module, IDS)
    assert report.totals["params"] == sum(weight.numel() for weight in module.parameters())
    assert "head.weight is table.weight" in " ".join(report.notes)


def test_frozen_weights_are_not_trained():
    module = nn.Linear(3, 4)
    module.weight.requires_grad_(False)
    totals = archcli.count_params(module).totals
    assert (totals["params"], totals["trainable_params"]) == (3 * 4 + 4, 4)


def test_a_module_called_twice_stores_its_weights_once():
    linear = nn.Linear(4, 4)
    module = nn.Sequential(linear, nn.ReLU(), linear)
    rows = archcli.rows(module, torch.empty(2, 4))
    assert sum(row.params for row in rows) == 20
    assert sum(row.times for row in rows if row.weights) == 2


def test_weights_that_nothing_calls_have_a_row():
    module = nn.Module()
    module.forward = lambda x: x
    module.idle = nn.Linear(3, 4)
    assert [(row.path, row.params) for row in archcli.rows(module, torch.empty(1)) if row.params] == [
        ("idle", 16)
    ]


@pytest.mark.long
def test_groups_go_by_class_and_place():
    groups = {
        row.path: row.group
        for row in archcli.rows(
            nn.Transformer(16, 4, 1, 1, 32, batch_first=True), (torch.empty(5, 2, 16),) * 2
        )
    }
    assert groups["encoder.layers.0.self_attn"] == "attention"
    assert groups["encoder.layers.0.linear1"] == "ffn"
    assert groups["encoder.norm"] == "norms"
    assert groups["encoder.layers.0"] == "other"


def test_a_module_is_left_as_it_was():
    module = Tied().train()
    before = {name: (id(x), x.clone()) for name, x in module.state_dict(keep_vars=True).items()}
    grads = [torch.ones_like(x) for x in module.parameters()]
    for weight, grad in zip(module.parameters(), grads, strict=True):
        weight.grad = grad
    archcli.count_memory(module, IDS, phase="train")
    archcli.count_flops(module, IDS, run_on="cpu", phase="train")
    after = module.state_dict(keep_vars=True)
    assert all(id(after[name]) == key and torch.equal(after[name], x) for name, (key, x) in before.items())
    assert [weight.grad is grad for weight, grad in zip(module.parameters(), grads, strict=True)] == [
        True
    ] * len(grads)
    assert module.training
    assert not any(child._forward_hooks or child._forward_pre_hooks for child in module.modules())


def test_a_real_run_leaves_statistics_and_random_numbers_as_they_were():
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    before = {name: x.clone() for name, x in module.state_dict().items()}
    random = torch.get_rng_state()
    archcli.count_flops(module, "float32[3,4]", run_on="cpu", phase="train")
    archcli.profile(module, "float32[3,4]", phase="train", pairs=1)
    assert all(torch.equal(x, before[name]) for name, x in module.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())


def test_inputs_by_keyword_and_settings_that_are_no_tensors():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, *args, x, mode="mean", **others):
            return self.inner(x) * others["scale"]

    report = archcli.summary(Scaled(), x="float32[2,4]", mode="sum", scale=2.0)
    assert report.inputs["input"] == ["x=fp32[2,4]"]
    assert report.totals["matmul_flops"] == 2 * 2 * 4 * 4


WRONG = {
    "is a class; give a module": lambda: archcli.summary(Tied, IDS),
    "2 is no torch.nn.Module": lambda: archcli.summary(2, IDS),
    "give them in a tuple": lambda: archcli.count_flops(Tied(), IDS, IDS),
    "takes no 'batch_size' of a module": lambda: archcli.count_flops(Tied(), IDS, batch_size=2),
    'phase must be forward or train, not "decode"': lambda: archcli.count_memory(Tied(), IDS, phase="decode"),
    "takes no 'input_size'": lambda: archcli.summary(Tied(), input_size=(1, 3)),
    'loss is "mse", no function': lambda: archcli.summary(Tied(), IDS, loss="mse"),
    "no tensor of one element": lambda: archcli.count_memory(Tied(), IDS, loss=lambda out: out),
    "table.weight has no values, so nothing can run on cpu; build it on cpu": lambda: archcli.summary(
        Tied().to("meta"), IDS, run_on="cpu"
    ),
    "the inputs are ids=list": lambda: archcli.summary(Tied(), [1.5, 2]),
    "summary, params, flops, memory, show and profile take modules": lambda: archcli.count_kv_cache(Tied()),
}


@pytest.mark.parametrize("said", WRONG)
def test_wrong_calls_say_what_to_do(said):
    with pytest.raises(ArchError, match=re.escape(said)):
        WRONG[said]()


def test_what_is_recomputed_belongs_to_the_backward_of_its_module():
    class Recomputed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return checkpoint(lambda x: self.inner(x).tanh(), x, use_reentrant=False)

    rows = archcli.rows(Recomputed(), torch.empty(2, 4, requires_grad=True), phase="train")
    (inner,) = [row for row in rows if row.path == "inner"]
    products = [part.flops for _, _, part in inner.pieces("train") if part.op_class == "contraction"]
    # forward, the forward again, and the gradients of the weight and of the input
    assert products == [2 * 2 * 4 * 4] * 4
    assert inner.times == 1


def test_methods_and_dicts_of_inputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(4, 4)

        def encode(self, *, x):
            return self.encoder(x)

    report = archcli.summary(Two(), named={"x": torch.empty(2, 4)}, call="encode")
    assert report.totals["matmul_flops"] == 2 * 2 * 4 * 4
    with pytest.raises(ArchError, match="has no method 'decode'; did you mean encode"):
        archcli.summary(Two(), call="decode")


def test_errors_name_the_argument_and_the_shape():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 4))
    with pytest.raises(
        ArchError, match=r"^1 \(Linear\) raises RuntimeError: a and b .*it was given \[2, 4\]"
    ):
        archcli.summary(module, torch.empty(2, 4))
    with pytest.raises(ArchError, match=r"missing a required argument: 'input'"):
        archcli.summary(module)
    with pytest.raises(ArchError, match=r"is no torch\.nn\.Module"):
        archcli.summary(3, torch.empty(1))


def test_modules_that_cannot_be_watched_say_why():
    with pytest.raises(ArchError, match="0 is compiled by TorchScript"):
        archcli.summary(nn.Sequential(torch.jit.script(nn.ReLU())), torch.empty(2))
    with pytest.raises(ArchError, match="weight has no shape before the first call"):
        archcli.summary(nn.LazyLinear(4), torch.empty(2, 3))


def test_control_flow_on_weights_says_so_and_runs_on_a_cpu():
    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            x = self.inner(x)
            return x if x.sum() > 1e9 else self.inner(x)

    with pytest.raises(ArchError, match=r"test_own_rows.py:\d+ looks at values") as refused:
        archcli.summary(Asks(), torch.empty(2, 4))
    assert "--run-on cpu" in refused.value.problems[0].hint
    assert (
        archcli.summary(Asks(), torch.randn(2, 4), run_on="cpu").totals["matmul_flops"] == 2 * 2 * 2 * 4 * 4
    )


def test_control_flow_on_given_ids_is_answered():
    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Embedding(9, 4)

        def forward(self, ids):
            return self.inner(ids[: int(ids.max()) + 1]) if bool((ids > 0).any()) else self.inner(ids)

    (row,) = [row for row in archcli.rows(Asks(), torch.tensor([1, 0, 0, 0])) if row.path]
    assert row.inputs == ((2,),)
