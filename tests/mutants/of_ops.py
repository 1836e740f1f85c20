"""Mutants of the ops, made from the ops' own methods so that a new op is mutated without a line here.

Of masks, constants and the waist.
"""

import dataclasses
import inspect
from collections.abc import Iterator

import torch

import archcli.ops
from archcli import modules as m
from archcli.graph import Op, OpClass, count_tape
from archcli.ops import (
    Attend,
    Bidirectional,
    BlockSparse,
    Causal,
    Chunked,
    Dilated,
    Fixed,
    Lookup,
    Positions,
    SlidingWindow,
    Strided,
    WindowAndGlobal,
    base,
    normalize,
)
from archcli.ops.attention import attend_cost, mask
from archcli.ops.losses import loss
from archcli.wings.running.runtime.model.leaves import MODULES
from mutants.mutant import Mutant, constant, plus
from ops.cases import CASES


def first(parts, **changes):
    """The parts with the first one changed: a number raised by one."""
    head, *rest = parts
    return (
        dataclasses.replace(head, **{name: change(getattr(head, name)) for name, change in changes.items()}),
        *rest,
    )


def more(number):
    return 1 if number is None else number + 1


PARTS = {
    "flops": lambda parts: first(parts, flops=more),
    "executed": lambda parts: first(parts, executed=lambda old: None if old is None else old + 1),
    "read": lambda parts: first(parts, read=more),
    "written": lambda parts: first(parts, written=more),
    "class": lambda parts: first(
        parts, op_class=lambda old: OpClass.MOVEMENT if old is not OpClass.MOVEMENT else OpClass.ROUTING
    ),
    "no-backward": lambda parts: first(parts, backward=lambda old: ()),
    "backward-flops": lambda parts: first(parts, backward=lambda old: first(old, flops=more) if old else ()),
    "backward-moved": lambda parts: first(parts, backward=lambda old: first(old, read=more) if old else ()),
    "last": lambda parts: (*parts[:-1], *first(parts[-1:], flops=more)),
    "dropped": lambda parts: parts[1:],
}


def grown(shape):
    """The shape, or the first of several, with a longer last axis; of a scalar, a list of one."""
    if not shape:
        return (1,)
    return (grown(shape[0]), *shape[1:]) if isinstance(shape[0], tuple) else (*shape[:-1], shape[-1] + 1)


def off(out):
    """A result that is wrong; of several, the first and the last."""
    if isinstance(out, tuple | list):
        return (off(out[0]), *out[1:-1], off(out[-1]))
    return out * 1.01 + 0.01 if out.is_floating_point() else out + 1


METHODS = {
    "shape": {"longer": grown},
    "weights": {
        "longer": lambda shapes: {name: grown(shape) for name, shape in shapes.items()},
        "none": lambda shapes: {},
    },
    "buffers": {"none": lambda shapes: {}},
    "cached": {"more": more},
    "parts": PARTS,
    "run": {"off": off},
    "run_fused": {"off": off},
    "leaf": {"wider": lambda leaf: leaf and type(leaf)(*[size + 1 for size in _sizes(leaf)])},
}


def _sizes(leaf):
    """The sizes with which torch's module was made."""
    names = {
        torch.nn.Linear: ("in_features", "out_features"),
        torch.nn.Embedding: ("num_embeddings", "embedding_dim"),
    }
    return (
        [getattr(leaf, name) for name in names[type(leaf)]]
        if type(leaf) in names
        else [leaf.normalized_shape[0]]
    )


def vocabulary():
    return [cls for _, cls in inspect.getmembers(archcli.ops, inspect.isclass) if issubclass(cls, Op)]


def of_ops() -> Iterator[Mutant]:
    """Every change of every method that an op states itself and that shows in one of its cases."""
    for cls in vocabulary():
        own = [case for case in CASES.values() if type(case.op) is cls]
        for method, changes in METHODS.items():
            for what, change in changes.items() if method in vars(cls) else ():
                if any(_shows(case, method, change) for case in own):
                    yield Mutant(
                        f"{cls.__name__}.{method}:{what}",
                        cls,
                        method,
                        _after(change),
                        (f"ops.{cls.__name__}",),
                    )


def _after(change):
    return lambda old: lambda *args: change(old(*args))


def _shows(case, method, change):
    """Whether the change says anything else of the case; results of a run always do."""
    if method.startswith("run"):
        return True
    extra = (MODULES,) if method == "leaf" else ()
    was = getattr(case.op, method)(*extra, *case.inputs)
    if method == "parts" and not was:
        return False
    return was is not None and (method == "leaf" or change(was) != was)


def without_experts(old):
    """A call that forgets how many experts there are."""
    return lambda *args, **options: old(*args, **options | {"experts": None})


CONSTANTS = [
    Mutant("softmax forward", attend_cost, "SOFTMAX_FORWARD", constant(6), ("ops.Attend",)),
    Mutant("softmax backward", attend_cost, "SOFTMAX_BACKWARD", constant(4), ("ops.Attend",)),
    *(
        Mutant(name, loss, name, lambda old: old + 1, ("ops.LogSumExp", "ops.LogSoftmax"))
        for name in vars(base)
        if name.startswith("LOG_")
    ),
    *(
        Mutant(name, normalize.base, name, lambda old: old + 1, ("ops.Normalize",))
        for name in vars(base)
        if name.startswith(("LAYERNORM_", "RMSNORM_"))
    ),
]
MASKS = [
    *(
        Mutant(f"{cls.__name__}.pairs", cls, "pairs", plus(1), ("masks", "ops.Attend"))
        for cls in (Causal, SlidingWindow, Chunked)
    ),
    *(
        Mutant(
            f"{cls.__name__}.allows",
            cls,
            "allows",
            lambda old: lambda self, query, key: old(self, query, key + 1),
            ("masks",),
        )
        for cls in (Causal, SlidingWindow, Chunked)
    ),
    *(
        Mutant(f"{cls.__name__}.upto", cls, "upto", lambda old: lambda self, n: old(self, n) + n, ("masks",))
        for cls in (Dilated, Strided, Fixed, BlockSparse)
    ),
    *(
        Mutant(f"{cls.__name__}.pairs", cls, "pairs", plus(1), ("masks",))
        for cls in (Bidirectional, WindowAndGlobal)
    ),
    *(
        Mutant(
            f"{cls.__name__}.allows",
            cls,
            "allows",
            lambda old: lambda self, query, key: old(self, query, key + 1),
            ("masks",),
        )
        for cls in (Dilated, Strided, Fixed, WindowAndGlobal, BlockSparse)
    ),
    *(
        Mutant(f"{cls.__name__}.keep", cls, "keep", plus(1), ("ops.ExtendCache",))
        for cls in (SlidingWindow, Chunked)
    ),
    *(
        Mutant(
            f"{cls.__name__}.covers", cls, "covers", lambda old: lambda self, new, visible: True, ("masks",)
        )
        for cls in (SlidingWindow, Chunked)
    ),
    Mutant("triangle", mask, "triangle", plus(1), ("masks",)),
    Mutant("minimum is maximum", mask, "minimum", constant(max), ("masks",)),
    Mutant(
        "fused attention forgets its mask",
        Attend,
        "run_fused",
        lambda old: lambda self, torch, w, q, k, v, p, *s: _unmasked(torch, q, k, v),
        ("ops.Attend",),
    ),
    Mutant(
        "a slope too many",
        Attend,
        "_slopes",
        lambda old: lambda self, torch, heads, like: old(self, torch, heads + 1, like)[1:],
        ("ops.Attend",),
    ),
]


def _unmasked(torch, q, k, v):
    grouped = q.shape[2] != k.shape[2]
    return torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(1, 2) for x in (q, k, v)), enable_gqa=grouped
    ).transpose(1, 2)


WAIST = [
    Mutant(
        "layers occur once too often",
        count_tape.CountTape,
        "occurrences",
        lambda old: lambda *args: ((i, times + 1) for i, times in old(*args)),
        ("oracle.gpt2",),
    ),
    Mutant(
        "a borrowed weight is counted again",
        count_tape.CountTape,
        "weight",
        lambda old: lambda self, op, *xs: (op(*xs), old(self, op, *xs))[1],
        ("oracle.gpt2",),
    ),
    Mutant(
        "experts are stored once",
        count_tape.CountTape,
        "call",
        without_experts,
        ("oracle.mixtral-8x7b",),
    ),
    Mutant(
        "a raw input has a gradient",
        count_tape,
        "needed",
        lambda old: lambda part, grads, **_: part,
        ("gradients.frozen",),
    ),
    Mutant(
        "a frozen table is trained", Lookup, "trained", constant(lambda *args: True), ("gradients.frozen",)
    ),
    Mutant(
        "a table has no gradient",
        count_tape,
        "needed",
        lambda old: (
            lambda part, grads, **_: dataclasses.replace(
                part, backward=tuple(b for b in part.backward if b.wrt == 0)
            )
        ),
        ("gradients.a_tied_table",),
    ),
    Mutant(
        "positions are trained", Positions, "trained", constant(lambda *args: True), ("gradients.positions",)
    ),
    Mutant(
        "a fixed table has a gradient",
        count_tape.Abstract,
        "__new__",
        lambda old: lambda cls, shape, grad=True: old(cls, shape, True),
        ("gradients.positions",),
    ),
    Mutant(
        "groups all begin at layer 0",
        m.Group,
        "run",
        lambda old: lambda self, x, context, start: old(self, x, context, 0),
        ("witness.deepseek",),
    ),
]

MUTANTS = [*of_ops(), *CONSTANTS, *MASKS, *WAIST]
