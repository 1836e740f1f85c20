"""State and temporaries of torch's own optimizers on models that archcli builds, byte for byte."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.optim import SGD, Adafactor, AdamW, Muon

from archcli.load import load
from archcli.measure.passes import train_pass
from archcli.modules import GLU, ConvFrontEnd, Embedding, Learned, PreNorm
from archcli.modules.adapters.lora import LoRA
from archcli.modules.attention.indexer import Indexer
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.shards import fake_rank
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.model.random_data import random_inputs
from archcli.wings.serving.memory.training import optimizers
from archcli.wings.serving.memory.training.optimizers import (
    OptimizerBytes,
    TrainedTensor,
    optimizer,
    trained_tensors,
)
from covering import COVERING
from gradients import encoder_decoder
from optimizing import WIDTHS, Mixed, state_tensors, step_peak, with_gradients
from small import decoder
from table import every_row
from zoo import RMS, ZOO, mla, model

INDEXER = Indexer(top_k=3, n_heads=2, head_dim=4, pairing="half")

MODELS = {
    "lora": decoder(lora=LoRA(rank=2, targets=("q", "v"))),
    "lora-tied": decoder(tied=True, lora=LoRA(rank=3, targets=("all_linear",))),
    **{name: spec for name, spec in ZOO.items() if name != "deepseek-absorbed"},
}


def muon(model, weights, foreach):
    """Muon on the weights of linear layers but the head, AdamW on the others."""
    layers = [module for name, module in model.named_modules() if name != "lm_head"]
    matrices = [layer.weight for layer in layers if isinstance(layer, torch.nn.Linear)]
    matrices = [weight for weight in weights if any(weight is matrix for matrix in matrices)]
    rest = [weight for weight in weights if not any(weight is matrix for matrix in matrices)]
    return [Muon(matrices), *([AdamW(rest, foreach=foreach)] if rest else [])]


THEIRS = {
    "adamw": lambda model, weights, foreach: [AdamW(weights, foreach=foreach)],
    "adamw-fused": lambda model, weights, foreach: [AdamW(weights, fused=True)],
    "adamw-mixed": lambda model, weights, foreach: [Mixed(weights)],
    "sgd": lambda model, weights, foreach: [SGD(weights, foreach=foreach)],
    "sgd-momentum": lambda model, weights, foreach: [SGD(weights, momentum=0.9, foreach=foreach)],
    "adafactor": lambda model, weights, foreach: [Adafactor(weights)],
    "muon": muon,
}


def ours(name, spec, width):
    return optimizer(name).state(trained_tensors(train_pass(spec, 1, 8).rows, width))


def measured(name, spec, width, own_step, foreach=True):
    """(state on the device, state on the host, peak of a second step) of the real optimizer.

    Here all lies on the CPU: of the state the step counts are the host's where `own_step`. `foreach` is
    torch's default on CUDA, None its default on a CPU.
    """
    model = build_model(spec, dtype=WIDTHS[width])
    theirs = THEIRS[name](model, with_gradients(model), foreach)
    for each in theirs:
        each.step()
    kept = [
        (key == "step" and own_step, tensor.nbytes) for each in theirs for key, tensor in state_tensors(each)
    ]
    on_host = sum(size for host, size in kept if host)
    return OptimizerBytes(sum(size for _, size in kept) - on_host, on_host, step_peak(*theirs))


ON_HOST = ("adamw", "adafactor", "muon")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.sample(2)
def test_state_and_peak_are_those_of_the_real_optimizer(model, name, width):
    assert ours(name, MODELS[model], width) == measured(name, MODELS[model], width, name in ON_HOST)


WITHOUT_SOME = {
    "indexer": model(PreNorm(attention=mla(q_lora_rank=6, index=INDEXER), ffn=GLU(d_ff=20), norm=RMS)),
    "frozen-table": encoder_decoder(
        Embedding(tied=True),
        {
            "front_end": ConvFrontEnd(in_channels=6, d_model=8),
            "position": Learned(max_seq_len=5, frozen=True),
        },
    ),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["adamw", "muon", "sgd", "sgd-momentum"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.sample(2)
def test_on_a_cpu_torch_steps_tensor_by_tensor(model, name, width):
    tensors = trained_tensors(train_pass(MODELS[model], 1, 8).rows, width)
    theirs = measured(name, MODELS[model], width, name in ON_HOST, foreach=None)
    assert optimizer(name, "cpu").state(tensors) == theirs


@pytest.mark.long
@every_row("name", [*MODELS, *WITHOUT_SOME])
def test_tensors_are_those_that_a_real_step_gives_gradients_in_its_order(name):
    spec = (MODELS | WITHOUT_SOME)[name]
    request = Request("train", 2, 9, None, 5 if name == "frozen-table" else None)
    built = build_model(spec, dtype=torch.float32)
    inputs = random_inputs(spec, request, torch.float32, torch.Generator().manual_seed(0))
    built(**inputs).sum().backward()
    tensors = trained_tensors(train_pass(spec, 2, 9).rows, 4)
    expected = [tuple(weight.shape) for weight in built.parameters() if weight.grad is not None]
    assert [tensor.shape for tensor in tensors for _ in range(tensor.count)] == expected
    left = [weight for weight in built.parameters() if weight.requires_grad and weight.grad is None]
    assert len(left) == {"indexer": 5}.get(name, 0)


@pytest.mark.parametrize("name", ["adamw", "adamw-fused", "sgd", "sgd-momentum", "muon"])
@pytest.mark.parametrize("width", WIDTHS)
def test_states_lie_where_torch_allocates_them_for_cuda_weights(name, width):
    makers = {"adamw": AdamW, "adamw-fused": lambda w: AdamW(w, fused=True), "sgd": SGD, "muon": Muon}
    makers["sgd-momentum"] = lambda w: SGD(w, momentum=0.9)
    shape, places = (8, 4), {"cuda": 0, "cpu": 0}
    with FakeTensorMode(allow_non_fake_inputs=True):
        weight = torch.nn.Parameter(torch.empty(shape, device="cuda", dtype=WIDTHS[width]))
        weight.grad = torch.empty_like(weight)
        theirs = makers[name]([weight])
        theirs.step()
        for _, tensor in state_tensors(theirs):
            places[tensor.device.type] += tensor.nbytes
    state = optimizer(name).state([TrainedTensor(shape, width, is_matrix=True)])
    assert (state.device, state.host) == (places["cuda"], places["cpu"])


@pytest.mark.long
@pytest.mark.parametrize("preset", COVERING)
@pytest.mark.sample(1)
def test_a_preset_s_rows_count_as_the_parameters_of_the_built_model(preset):
    """In order: what Adafactor's step holds at once depends on which tensors are neighbours."""
    spec = load(preset)
    built = build_model(spec, device="meta", dtype=torch.bfloat16).named_parameters()
    weights = [weight for name, weight in built if weight.requires_grad and ".indexer." not in name]
    theirs = [TrainedTensor(tuple(weight.shape), 2) for weight in weights]
    rows = train_pass(spec, 1, 8 + spec.mtp_depth).rows
    for name in ("adamw", "adafactor", "adam8bit"):
        assert optimizer(name).state(trained_tensors(rows, 2)) == optimizer(name).state(theirs)


SHARDED = {
    "adamw": lambda weights: [AdamW(weights, foreach=True)],
    "adamw-fused": lambda weights: [AdamW(weights, fused=True)],
    "sgd-momentum": lambda weights: [SGD(weights, momentum=0.9, foreach=True)],
    "muon": lambda weights: [
        Muon([weight for weight in weights if weight.ndim == 2]),
        AdamW([weight for weight in weights if weight.ndim != 2], foreach=True),
    ],
}


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


@pytest.mark.long
@every_row("rank", [0, 2, 3])
@every_row("name", SHARDED)
def test_the_state_of_a_shard_is_that_of_a_tensor_of_its_shape(name, rank):
    """Rows of 10 on 4 ranks: 3, 3, 3 and 1."""
    with fake_rank(rank, 4):
        mesh = init_device_mesh("cpu", (4,))
        layer = fully_shard(torch.nn.Linear(8, 10), mesh=mesh)
        weights = list(layer.parameters())
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        theirs = SHARDED[name](weights)
        for each in theirs:
            each.step()
        kept = [local(tensor).nbytes for each in theirs for _, tensor in state_tensors(each)]
    rows = 1 if rank == 3 else 3
    state = optimizer(name).state([TrainedTensor((rows, 8), 4, 1, is_matrix=True), TrainedTensor((rows,), 4)])
    assert state.device + state.host == sum(kept)


def test_adafactor_keeps_the_factors_of_a_shard_whole_and_refuses_the_step():
    with fake_rank(3, 4):
        mesh = init_device_mesh("cpu", (4,))
        weight = fully_shard(torch.nn.Linear(8, 10, bias=False), mesh=mesh).weight
        weight.grad = torch.ones_like(weight)
        theirs = Adafactor([weight])
        with pytest.raises(RuntimeError, match="placement"):
            theirs.step()
        shapes = {name: tuple(local(tensor).shape) for name, tensor in theirs.state[weight].items()}
    assert shapes == {"step": (), "row_var": (10, 1), "col_var": (1, 8)}


def test_stacked_experts_are_no_matrices_as_muon_refuses_them():
    stack = torch.nn.Parameter(torch.zeros(4, 6, 5))
    with pytest.raises(ValueError, match="2D"):
        Muon([stack])
    tensors = [t for t in trained_tensors(train_pass(MODELS["mixtral"], 1, 8).rows, 4) if len(t.shape) > 2]
    assert {t.shape for t in tensors} == {(4, 10, 16), (4, 16, 10)}
    assert not any(tensor.is_matrix for tensor in tensors)


MUTANTS = [
    ("adamw", "AdamW.host_step", 8),
    ("adamw-fused", "STEP", 8),
    ("adamw-mixed", "FP32", 2),
    ("adafactor", "Adafactor.host_step", 0),
    ("muon", "BF16", 4),
]


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize(("name", "constant", "wrong"), MUTANTS)
def test_a_wrong_width_is_seen(monkeypatch, name, constant, wrong):
    monkeypatch.setattr(f"{optimizers.__name__}.{constant}", wrong)
    assert ours(name, MODELS["llama"], 2) != measured(name, MODELS["llama"], 2, name in ON_HOST)


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("name", [name for name in THEIRS if name != "sgd"])
def test_weights_of_another_width_are_seen(name):
    assert ours(name, MODELS["llama"], 4) != measured(name, MODELS["llama"], 2, name in ON_HOST)
