"""What torch's derivative formulas name is what the nodes of CUDA's operators save."""

import re
from pathlib import Path

import pytest
import torch
import torchgen

from archcli.wings.running.runtime.memory.cuda_on_meta import cuda_on_meta
from archcli.wings.running.runtime.memory.kept import KeptRecorder

FORMULAS = (Path(torchgen.__file__).parent / "packaged/autograd/derivatives.yaml").read_text()
B, H, T, D = 2, 4, 48, 64


def formula(name):
    """(tensors of the signature and of the results, the backward's formula) of an operator."""
    entry = re.search(rf"^- name: ({name}\(.*)\n((?:  .*\n)+)", FORMULAS, re.MULTILINE)
    signature, body = entry.groups()
    backward = next(line for line in body.splitlines() if re.match(r"  (query|input|self)\b.*:", line))
    tensors = re.findall(r"Tensor\??(?:\([^)]*\))? (\w+)", signature)
    results = [f"result{i}" for i in range(signature.rpartition("->")[2].count("Tensor"))]
    return [*tensors, *results], backward.partition(":")[2]


def named(name):
    """The tensors that the operator's backward needs."""
    tensors, backward = formula(name)
    return {tensor for tensor in tensors if re.search(rf"\b{tensor}\b(?!\()", backward)}


def saved(run, *tensors):
    """(shape, bytes of an element) of what is saved while it runs, with tensors of no axes."""
    found = []

    def pack(tensor):
        found.append((tuple(tensor.shape), tensor.element_size()))
        return tensor

    with cuda_on_meta(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run(*tensors)
    return sorted(found)


def meta(*shape):
    return torch.empty(*shape, device="meta", dtype=torch.bfloat16, requires_grad=True)


def test_flash_attention():
    """Cumulative lengths are of packed sequences alone; the state of random numbers is two of 8 bytes."""
    assert named("_scaled_dot_product_flash_attention") == {
        *("query", "key", "value", "output", "logsumexp"),
        *("cum_seq_q", "cum_seq_k", "rng_state", "unused"),
    }
    x = ((B, H, T, D), 2)
    found = saved(torch.nn.functional.scaled_dot_product_attention, *(meta(B, H, T, D) for _ in range(3)))
    assert found == sorted([x, x, x, x, ((B, H, T), 4), ((2,), 8), ((), 8)])


def test_memory_efficient_attention():
    names = {*("query", "key", "value", "attn_bias", "output", "log_sumexp"), "philox_seed", "philox_offset"}
    assert named("_scaled_dot_product_efficient_attention") == names
    wide, narrow = ((B, H, T, D), 2), ((B, H, T, 32), 2)
    tensors = [meta(B, H, T, D), meta(B, H, T, D), meta(B, H, T, 32)]
    found = saved(torch.nn.functional.scaled_dot_product_attention, *tensors)
    assert found == sorted([wide, wide, narrow, narrow, ((B, H, 64), 4), ((), 8), ((), 8)])


def test_rms_norm():
    assert named("_fused_rms_norm") == {"input", "weight", "result1"}
    norm = torch.nn.RMSNorm(D, device="meta", dtype=torch.bfloat16)
    found = saved(norm, meta(B, T, D))
    assert found == sorted([((B, T, D), 2), ((D,), 2), ((B, T, 1), 4)])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_grouped_products(dtype):
    assert named("_grouped_mm") == {"self", "mat2", "offs"}  # of self, its sizes; mat2's backward reads it
    x, weight = (torch.empty(*shape, device="meta", dtype=dtype) for shape in ((32, 16), (4, 16, 8)))
    ends = torch.empty(4, dtype=torch.int32, device="meta")
    with cuda_on_meta(), KeptRecorder([]) as recorder:
        y = torch.nn.functional.grouped_mm(x.requires_grad_(), weight.requires_grad_(), offs=ends)
        assert y.shape == (32, 8)
        y.sum().backward()
    assert (x.grad.shape, weight.grad.shape) == (x.shape, weight.shape)
    assert recorder.kept().bytes == sum(t.numel() * t.element_size() for t in (x, weight, ends))
