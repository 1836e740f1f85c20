"""What each reading answers of an architecture.

Params, matmul FLOPs exact and dense, other FLOPs, cached elements; and how to read it.
"""

from dataclasses import replace

import sympy
import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from archcli.measure.passes import decode_pass, forward_pass, prefill_pass, train_pass
from archcli.modules import Encoder, substitute
from archcli.modules.spec.base import settings
from archcli.wings.running.runtime.model.build import build_model, example_inputs
from archcli.wings.running.runtime.verify.contractions import FORMULAS

SIZES = {
    *(
        "vocab_size",
        "d_model",
        "max_seq_len",
        "n_layers",
        "n_heads",
        "n_kv_heads",
        "head_dim",
        "v_head_dim",
        "d_ff",
    ),
    *(
        "window",
        "chunk",
        "dilation",
        "stride",
        "summary",
        "n_global",
        "n_features",
        "max_distance",
        "rotary_dim",
        "n_experts",
        "top_k",
    ),
    *("n_labels", "n_buckets", "in_channels", "source_len", "rank", "div_value", "n_classes", "n_samples"),
    *("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"),
    *("state", "d_inner", "dt_rank", "conv_kernel", "n_key_heads", "n_value_heads", "key_head_dim"),
    *("value_head_dim", "gate_rank"),
}


def sizes_of(model):
    """The sizes of an architecture by full path: what may be a symbol or an array."""
    return {
        path: value
        for path, value in settings(model)
        if path.rpartition(".")[2] in SIZES and isinstance(value, int) and value
    }


def counted(model, batch_size, seq_len, past):
    """What ints (or symbols, or arrays) say of every pass."""
    train = train_pass(model, batch_size, seq_len)
    figures = {"params": train.params(), "active params": sum(row.active_params for row in train.rows)}
    figures["forward matmul"], figures["forward other"] = replace(
        train, request=replace(train.request, phase="forward")
    ).flops()
    figures["train matmul"], figures["train other"] = train.flops()
    figures["train dense matmul"], figures["train dense other"] = train.flops(unmasked=True)
    figures["train moved"] = moved(train)
    if isinstance(model, Encoder):
        return figures
    prefill, decode = prefill_pass(model, batch_size, seq_len), decode_pass(model, batch_size, past)
    figures["decode matmul"], figures["decode other"] = decode.flops()
    figures |= {
        "prefill moved": moved(prefill),
        "decode moved": moved(decode),
        "source cached": prefill.cross_cached(),
    }
    return figures | {"prefill cached": prefill.cached(), "decode cached": decode.cached()}


def moved(one):
    """Elements read and written by a pass, in training backward too."""
    backward = one.phase == "train"
    parts = [
        (row, piece)
        for row in one.rows
        for part in row.parts
        for piece in (part, *(part.backward if backward else ()))
    ]
    return sum(row.times * (part.read + part.written) for row, part in parts)


def counted_dense(model, batch_size, seq_len):
    """What ints say of what torch can see: all scores computed."""
    train = train_pass(model, batch_size, seq_len)
    figures = {
        "params": train.params(),
        "train": train.flops(unmasked=True)[0],
        "forward": forward_pass(model, batch_size, seq_len).flops(unmasked=True)[0],
    }
    if isinstance(model, Encoder):
        return figures
    prefill, decode = prefill_pass(model, batch_size, seq_len), decode_pass(model, batch_size, seq_len)
    for one in (prefill, decode):  # what is kept of the source stays as it was
        figures |= {
            one.phase: one.flops(unmasked=True)[0],
            f"{one.phase} cached": one.cached() + prefill.cross_cached(),
        }
    return figures


def by_symbols(model, batch_size, seq_len, past):
    """The same figures as closed forms, evaluated at the sizes."""
    values = {
        sympy.Symbol(path, positive=True, integer=True): value for path, value in sizes_of(model).items()
    }
    asked = dict(
        zip(sympy.symbols("B T P", positive=True, integer=True), (batch_size, seq_len, past), strict=True)
    )
    figures = counted(substitute(model, {symbol.name: symbol for symbol in values}), *asked)
    numbers = {symbol: sympy.Integer(value) for symbol, value in (values | asked).items()}
    return {name: sympy.sympify(figure).xreplace(numbers) for name, figure in figures.items()}


def by_torch(model, batch_size, seq_len):
    """What the built model says on meta.

    Its parameters, and torch's count of what forward and backward execute.
    """
    built = build_model(model, device="meta", attention="eager")
    with torch.device("meta"):
        inputs = example_inputs(model, batch_size, seq_len)
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        built(*inputs)
        forward = counter.get_total_flops()
        answer = built(*inputs, targets=inputs[0] if model.trains_on_targets else None)
        answer.backward(torch.empty_like(answer))
    params = sum(parameter.numel() for parameter in built.parameters())
    return {"params": params, "forward": forward, "train": counter.get_total_flops() - forward}


def by_torch_cache(model, batch_size, seq_len):
    """What a prefill and a decode step through the real cache execute, and the sizes of cached tensors."""
    built = build_model(model, device="meta", attention="eager")
    with torch.device("meta"):
        tokens, *source = example_inputs(model, batch_size, seq_len)
    figures, step, args = {}, built.prefill, (tokens, *source)
    for phase in ("prefill", "decode"):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            cache = step(*args)[1]
        figures[phase] = counter.get_total_flops()
        figures[f"{phase} cached"] = sum(
            leaf.numel() for leaf in tree_leaves(cache.layers) if isinstance(leaf, torch.Tensor)
        )
        step, args = built.decode, (tokens[:, :1], cache)
    return figures
