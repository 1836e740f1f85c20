"""Record what the 8-bit AdamW of bitsandbytes and torchao keep: python record_8bit.py > eight_bit.json.

Needs both libraries, which the tests do not: pip install bitsandbytes torchao. Each takes one real step on
the CPU (torchao's without compiling) on tensors around its thresholds and on those of a preset's layer.
"""

import json
import sys
from importlib.metadata import version

import bitsandbytes
import torch
import torchao.optim

from archcli import load
from archcli.measure.passes import train_pass
from archcli.wings.serving.memory.training.optimizers import trained_tensors

AROUND = [(1,), (4095,), (4096,), (4097,), (63, 65), (16, 256), (100, 100), (4, 40, 60), (3, 1024, 8)]
PRESET = "gpt2"
MAKERS = {"bitsandbytes": bitsandbytes.optim.AdamW8bit, "torchao": torchao.optim.AdamW8bit}


def plain(value):
    """The tensors of a state: those of torchao lie within one of a class of its own."""
    inner = getattr(value, "tensor_attrs", None)
    return [getattr(value, name) for name in inner] if inner else [value]


def state_of(maker, shapes, dtype):
    weights = [torch.zeros(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer = maker(weights)
    optimizer.step()
    storages = {}
    for weight in weights:
        for name, value in optimizer.state[weight].items():
            for tensor in plain(value) if isinstance(value, torch.Tensor) else ():
                place = "step" if name == "step" else "state"
                storages[tensor.untyped_storage().data_ptr()] = place, tensor.untyped_storage().nbytes()
    return {place: sum(size for at, size in storages.values() if at == place) for place in ("state", "step")}


def layer_shapes():
    tensors = trained_tensors(train_pass(load(PRESET), 1, 8).rows, 2)
    return [tuple(map(int, t.shape)) for t in tensors if t.count and t.elements < 2**22]


def main():
    torch.compile = lambda function, **_: function
    cases = {"around": AROUND, "layer": layer_shapes(), **{f"alone_{i}": [s] for i, s in enumerate(AROUND)}}
    records = [
        {
            "library": name,
            "version": version(name),
            "width": dtype.itemsize,
            "shapes": shapes,
            **state_of(make, shapes, dtype),
        }
        for name, make in MAKERS.items()
        for dtype in (torch.float32, torch.bfloat16)
        for shapes in cases.values()
    ]
    sys.stdout.write("[\n" + ",\n".join(f" {json.dumps(record)}" for record in records) + "\n]\n")


if __name__ == "__main__":
    main()
