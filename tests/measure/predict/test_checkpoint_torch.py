"""torch's activation checkpointing runs a layer again up to the last operation that keeps something."""

from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from archcli.graph.kept import Execution
from archcli.load import load
from archcli.measure.passes import train_pass
from archcli.wings.running.runtime import build_model
from archcli.wings.serving.memory.training.losses import recomputed
from archcli.wings.serving.predict.rank.planned import repeated_paths

MODEL = {
    "vocab_size": 32,
    "d_model": 8,
    "max_seq_len": 4,
    "norm": {"kind": "layernorm", "eps": 1e-5},
    "embedding": {"tied": False},
    "groups": [
        {
            "n_layers": 1,
            "layer": {
                "kind": "pre_norm",
                "attention": {"kind": "mha", "n_heads": 2, "bias": True},
                "ffn": {"kind": "mlp", "activation": "gelu", "d_ff": 16, "bias": True},
            },
        }
    ],
}


class Counted(TorchDispatchMode):
    """Counts torch's operations where they run."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls[func._schema.name] += 1
        return func(*args, **(kwargs or {}))


def test_what_runs_again_is_what_torch_runs_again():
    spec = load(MODEL)
    layer = build_model(spec, device="cpu", dtype=torch.float32).layers[0]
    hidden = torch.randn(1, 4, 8, requires_grad=True)
    torch.manual_seed(0)
    out = checkpoint(lambda x: _first(layer(x)), hidden, use_reentrant=False)
    with Counted() as counted:
        out.sum().backward()
    rows = train_pass(spec, 1, 4).rows
    again = repeated_paths(rows, recomputed("layer"), Execution("cpu", width=4))
    linear = [row for row in rows if "bias" in row.weights and "proj" in row.path]
    assert len(linear) == 6
    assert [row.path for row in linear if row.path not in again] == ["layers.0.ffn.down_proj"]
    assert counted.calls["aten::addmm"] == len([row for row in linear if row.path in again])


def _first(out):
    return out[0] if isinstance(out, tuple) else out
