"""What the `mup` package multiplies in small models of transformers. Regenerates `mup.json`.

    pip install --no-deps mup
    python tests/oracle/regenerate_mup.py

Of each pair of configs, a model and its base: the factor of the standard deviation in `mup.init.normal_`,
the learning rates of `MuAdam` and `MuSGD` for one of 1.0, and what a `MuReadout` multiplies in its forward.
None of our code takes part. GPT-2's Conv1D becomes the linear layer that it is, and stacked experts a layer
each, as the package knows linear layers; names are those of files. A layer from a width to a fixed size is a
MuReadout, as the package's own assertion demands.
"""

import json
from pathlib import Path

import mup
import torch
import transformers
from torch import nn
from transformers.pytorch_utils import Conv1D

RECORD = Path(__file__).parent / "mup.json"
SIZES = {"vocab_size": 96, "max_position_embeddings": 64}
LLAMA = {**SIZES, "num_hidden_layers": 2, "tie_word_embeddings": False}
FILES = {"mixtral": (".mlp.", ".block_sparse_moe.")}
"""What files call a part that the class of transformers 5 calls otherwise."""
MODELS = {
    "llama": (
        {**LLAMA, "hidden_size": 128, "intermediate_size": 384, "num_attention_heads": 8}
        | {"num_key_value_heads": 2, "head_dim": 16},
        # keys of two heads of 16 in both: from a width to a fixed size
        {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2},
    ),
    "gpt2": (
        {"vocab_size": 96, "n_positions": 64, "n_embd": 96, "n_head": 4, "n_layer": 2},
        {"n_embd": 32},
    ),
    "mixtral": (
        {**LLAMA, "hidden_size": 96, "intermediate_size": 160, "num_attention_heads": 4}
        | {"num_key_value_heads": 2, "head_dim": 24, "num_local_experts": 4, "num_experts_per_tok": 2},
        {"hidden_size": 32, "intermediate_size": 64, "head_dim": 8},
    ),
}


def built(kind, config):
    """The class's model in float64, all of whose matrices are linear layers."""
    cls = transformers.AutoModelForCausalLM
    model = cls.from_config(transformers.CONFIG_MAPPING[kind].from_dict(config)).double()
    for path, module in [*model.named_modules()]:
        if isinstance(module, Conv1D):
            model.set_submodule(path, linear(module.weight.T, module.bias))
        elif hasattr(module, "gate_up_proj"):
            model.set_submodule(path, nn.ModuleList(map(expert, module.gate_up_proj, module.down_proj)))
        elif path.endswith("mlp.gate"):
            model.set_submodule(path, linear(module.weight), strict=True)
    return model


def linear(weight, bias=None):
    """A linear layer with a weight of this shape."""
    return nn.Linear(*weight.T.shape, bias=bias is not None, dtype=weight.dtype)


def expert(gate_up, down):
    """An expert as files name its matrices."""
    return nn.ModuleDict(dict(zip(("w1", "w3", "w2"), map(linear, (*gate_up.chunk(2), down)), strict=True)))


def with_readouts(model, base):
    """The model, whose layers from a width to a fixed size are MuReadouts; their names."""
    names = []
    for path, layer in [*model.named_modules()]:
        if not isinstance(layer, nn.Linear):
            continue
        narrow = base.get_submodule(path).weight.shape
        if layer.out_features == narrow[0] and layer.in_features != narrow[1]:
            readout = mup.MuReadout(layer.in_features, layer.out_features, bias=False).double()
            readout.weight = layer.weight
            model.set_submodule(path, readout)
            names.append(path)
    return names


def std_multiplier(tensor):
    """The factor of `mup.init.normal_` on the numbers of torch's own."""
    plain = torch.empty_like(tensor)
    for init, it in ((mup.init.normal_, tensor), (nn.init.normal_, plain)):
        torch.manual_seed(0)
        init(it, std=1.0)
    return (tensor.flatten()[0] / plain.flatten()[0]).item()


def rates(model, optimizer):
    """The learning rate of each tensor for one of 1.0."""
    groups = optimizer(model.parameters(), lr=1.0).param_groups
    by_tensor = {id(p): group["lr"] for group in groups for p in group["params"]}
    return {name: by_tensor[id(p)] for name, p in model.named_parameters()}


@torch.no_grad()
def multiplied(readout):
    """What the forward of a MuReadout multiplies."""
    x = torch.ones(readout.in_features, dtype=torch.float64)
    readout.weight.fill_(1.0)
    return (readout(x)[0] / nn.functional.linear(x, readout.weight)[0]).item()


def recorded(kind, config, narrower):
    """The package's answer for a model and its base."""
    base = {**config, **narrower}
    model, narrow = built(kind, config), built(kind, base)
    readouts = with_readouts(model, narrow)
    mup.set_base_shapes(model, {name: tuple(p.shape) for name, p in narrow.named_parameters()})
    with torch.no_grad():
        std = {name: std_multiplier(p) for name, p in model.named_parameters()}
    there, in_files = FILES.get(kind, ("", ""))
    adam, sgd = rates(model, mup.MuAdam), rates(model, mup.MuSGD)
    return {
        "config": {"architectures": [type(model).__name__], "model_type": kind, **config},
        "base": {"architectures": [type(model).__name__], "model_type": kind, **base},
        "tensors": {name.replace(there, in_files): [std[name], adam[name], sgd[name]] for name in std},
        "readouts": {
            path.replace(there, in_files): multiplied(model.get_submodule(path)) for path in readouts
        },
    }


if __name__ == "__main__":
    answers = {kind: recorded(kind, *configs) for kind, configs in MODELS.items()}
    RECORD.write_text(json.dumps(answers, indent=1) + "\n")
