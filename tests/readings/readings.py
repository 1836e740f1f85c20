"""What each reading answers of an architecture: params, matmul FLOPs exact and dense, other FLOPs, cached elements; and how to read it."""

import sympy
import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from archcli.measure.passes import decode_pass, forward_pass, prefill_pass, train_pass
from archcli.modules import substitute
from archcli.modules.base import settings
from archcli.runtime.build import build_model

SIZES = {
    *("vocab_size", "d_model", "max_seq_len", "n_layers", "n_heads", "n_kv_heads", "head_dim", "v_head_dim", "d_ff"),
    *("window", "chunk", "rotary_dim", "n_experts", "top_k"),
    *("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"),
}


def sizes_of(model):
    """The sizes of an architecture by full path: what may be a symbol or an array."""
    return {path: value for path, value in settings(model) if path.rpartition(".")[2] in SIZES and isinstance(value, int)}


def counted(model, batch_size, seq_len, past):
    """Every figure of every pass, by name."""
    passes = {
        "forward": forward_pass(model, batch_size, seq_len),
        "train": train_pass(model, batch_size, seq_len),
        "prefill": prefill_pass(model, batch_size, seq_len),
        "decode": decode_pass(model, batch_size, past),
    }
    figures = {"params": passes["forward"].params(), "active_params": sum(row.active_params for row in passes["forward"].rows)}
    for phase, one in passes.items():
        figures[f"{phase} matmul"], figures[f"{phase} other"] = one.flops()
        figures[f"{phase} dense matmul"], figures[f"{phase} dense other"] = one.flops(dense=True)
        figures[f"{phase} moved"] = sum(row.times * (part.read + part.written) for row in one.rows for part in row.parts)
        figures[f"{phase} cached"] = one.cached()
    return figures


def by_symbols(model, batch_size, seq_len, past):
    """The same figures as closed forms, evaluated at the sizes."""
    values = {sympy.Symbol(path, positive=True, integer=True): value for path, value in sizes_of(model).items()}
    asked = dict(zip(sympy.symbols("B T P", positive=True, integer=True), (batch_size, seq_len, past), strict=True))
    figures = counted(substitute(model, {symbol.name: symbol for symbol in values}), *asked)
    numbers = {symbol: sympy.Integer(value) for symbol, value in (values | asked).items()}
    return {name: sympy.sympify(figure).subs(numbers) for name, figure in figures.items()}


def by_torch(model, batch_size, seq_len, past):
    """What the built model says on meta: its parameters, and torch's count of what it executes."""
    built = build_model(model, device="meta", attention="eager")
    tokens = torch.zeros(batch_size, seq_len, dtype=torch.int64, device="meta")
    with FlopCounterMode(display=False) as counter:
        logits = built(tokens)
        forward = counter.get_total_flops()
        logits.backward(torch.empty_like(logits))
    figures = {"params": sum(parameter.numel() for parameter in built.parameters()), "forward dense matmul": forward}
    figures["train dense matmul"] = counter.get_total_flops()
    with torch.no_grad():
        figures["prefill dense matmul"], figures["prefill cached"], _ = _step(built.prefill, tokens)
        held = built.prefill(tokens.new_zeros(batch_size, past))[1]
        figures["decode dense matmul"], figures["decode cached"], _ = _step(built.decode, tokens[:, :1], held)
    return figures


def _step(step, *args):
    with FlopCounterMode(display=False) as counter:
        _, cache = step(*args)
    return counter.get_total_flops(), sum(tensor.numel() for tensor in tree_leaves(cache.layers)), cache
