"""Modules of torch alone that a user may write: every kind of product, storage and call; see foreign.py.

Each maker gives (module, inputs) and, where torch's counter misses something, the FLOPs of a forward worked
out by hand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

Made = tuple[Any, ...]
X = torch.randn(4, 8)
HEADS = tuple(torch.randn(2, 4, 6, 8) for _ in range(3))
WHOLE = 4 * (2 * 4) * 6 * 6 * 8
"""FLOPs of attention over all pairs of HEADS: scores, and what they mix."""
LINEAR = 2 * 4 * 8 * 8
"""FLOPs of a square matrix of 8 by X."""


class Run(nn.Module):
    """A function as a module, with weights of the given shapes that it takes first."""

    def __init__(self, function: Callable[..., Any], *shapes: Any, **children: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(shape) / 4) for shape in shapes)
        for name, child in children.items():
            self.add_module(name, child)
        self.children_given = list(children)

    def forward(self, *xs: Any, **named: Any) -> Any:
        """The function of weights, children and inputs."""
        children = [self.get_submodule(name) for name in self.children_given]
        return self.function(*self.weights, *children, *xs, **named)


class Doubled(torch.autograd.Function):
    """A product with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """x by w."""
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """Both gradients."""
        x, w = ctx.saved_tensors
        return grad @ w.T, x.T @ grad


def attention(mask: torch.Tensor | None = None, **options: Any) -> Callable[[], Made]:
    """scaled_dot_product_attention with options, after a projection that trains."""

    def make() -> Made:
        def attend(w: Any, q: Any, k: Any, v: Any, *mask: Any) -> Any:
            return nn.functional.scaled_dot_product_attention(q @ w, k, v, *mask, **options)

        given = HEADS if mask is None else (*HEADS, mask)
        return Run(attend, (8, 8)), given, 2 * 2 * 4 * 6 * 8 * 8 + WHOLE

    return make


def grouped_queries() -> Made:
    """Four heads of queries on two of keys."""
    q, k, v = HEADS
    attend = Run(
        lambda w, q, k, v: nn.functional.scaled_dot_product_attention(q @ w, k, v, enable_gqa=True), (8, 8)
    )
    return attend, (q, k[:, :2], v[:, :2]), 2 * 2 * 4 * 6 * 8 * 8 + WHOLE


def flex() -> Made:
    """flex_attention with a causal score."""
    from torch.nn.attention.flex_attention import flex_attention

    def causal(score: Any, _b: Any, _h: Any, q: Any, k: Any) -> Any:
        return torch.where(q >= k, score, -float("inf"))

    heads = tuple(torch.randn(1, 2, 16, 16) for _ in range(3))
    attend = Run(lambda w, q, k, v: flex_attention(q @ w, k, v, score_mod=causal), (16, 16))
    return attend, heads, 2 * 2 * 16 * 16 * 16 + 4 * 2 * 16 * 16 * 16


def fft_convolution() -> Made:
    """A long convolution by Fourier transforms: no product of matrices."""

    def run(w: Any, x: Any) -> Any:
        return torch.fft.irfft(torch.fft.rfft(x, n=16) * torch.fft.rfft(w, n=16), n=16)

    return Run(run, (8,)), (X,), 0


def complex_weights() -> Made:
    """A complex matrix: torch counts a complex multiply-add as one."""
    module = Run(lambda x, w: x @ w)
    module.w = nn.Parameter(torch.randn(8, 8, dtype=torch.complex64))
    module.function = lambda x: (x.to(torch.complex64) @ module.w).abs()
    return module, (X,)


def ensemble() -> Made:
    """An ensemble by vmap over functional calls."""
    models = [nn.Linear(8, 8) for _ in range(3)]
    base = nn.Linear(8, 8).to("meta")

    class Ensemble(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            params, _ = stack_module_state(models)
            self.stacked = nn.ParameterDict({name: nn.Parameter(x.detach()) for name, x in params.items()})

        def forward(self, x: Any) -> Any:
            stacked = dict(self.stacked.items())
            return vmap(lambda p: functional_call(base, p, (x,)))(stacked)

    return Ensemble(), (X,), 3 * LINEAR


def packed() -> Made:
    """An LSTM on a packed sequence: 5 + 3 steps."""

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(8, 16, batch_first=True)

        def forward(self, x: Any, lengths: Any) -> Any:
            return self.rnn(pack_padded_sequence(x, lengths, batch_first=True))[1][0]

    return Packed(), (torch.randn(2, 5, 8), torch.tensor([5, 3])), 2 * (5 + 3) * 4 * 16 * (8 + 16)


def dataclass_of_tensors() -> Made:
    """Inputs in a dataclass, tables in a dict, a list of lists, and a frozen weight."""

    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor

    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = {"a": torch.randn(8, 8), "b": [[torch.randn(8, 8)]]}
            self.linear = nn.Linear(8, 8)
            self.frozen = nn.Linear(8, 8).requires_grad_(False)

        def forward(self, batch: Any) -> Any:
            x = self.frozen(batch.x) @ self.tables["a"]
            return self.linear(x @ self.tables["b"][0][0])  # type: ignore[index]

    return Held(), (Batch(X),), 4 * LINEAR


def hidden_modules() -> Made:
    """Modules in a dict and in a list, which torch does not register."""

    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.known = nn.Linear(8, 8)
            self.hidden = {"a": [nn.Linear(8, 8)]}

        def forward(self, x: Any) -> Any:
            return self.known(self.hidden["a"][0](x))

    return Hidden(), (X,), 2 * LINEAR


def hooked() -> Made:
    """A hook that runs the output through a product once more."""
    linear = nn.Linear(8, 8)
    linear.register_forward_hook(lambda module, _, out: nn.functional.linear(out, module.weight))
    return nn.Sequential(linear, nn.ReLU(inplace=True), linear), (X,), 4 * LINEAR


def custom_op() -> Made:
    """An operation of torch.library with one tensor: what it multiplies cannot be seen."""
    if not hasattr(torch.ops, "forty") or not hasattr(torch.ops.forty, "gram"):

        @torch.library.custom_op("forty::gram", mutates_args=())
        def gram(x: torch.Tensor) -> torch.Tensor:
            return x @ x.T

        @gram.register_fake
        def _(x: torch.Tensor) -> torch.Tensor:
            return x.new_empty(x.shape[0], x.shape[0])

    return Run(torch.ops.forty.gram), (X,)


def quantized() -> Made:
    """Dynamically quantized linear layers."""
    from torch.ao.quantization import quantize_dynamic

    return quantize_dynamic(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))), (X,)


def nested() -> Made:
    """A nested tensor made of two sequences."""

    def run(linear: Any, a: Any, b: Any) -> Any:
        rows = torch.nested.nested_tensor([a, b], layout=torch.jagged)
        return linear(rows).values()

    return Run(run, linear=nn.Linear(8, 8)), (X, torch.randn(6, 8)), 2 * 10 * 8 * 8


def sparse() -> Made:
    """A sparse matrix by a dense one."""

    def run(w: Any, x: Any) -> Any:
        return torch.sparse.mm(torch.eye(8).to_sparse(), w) @ x.T

    return Run(run, (8, 8)), (X,)


def float8() -> Made:
    """A scaled product of float8."""

    def run(x: Any) -> Any:
        low = x.to(torch.float8_e4m3fn)
        return torch._scaled_mm(  # noqa: SLF001 - no other name runs it
            low, low.T, torch.ones(()), torch.ones(()), out_dtype=torch.bfloat16
        )

    return Run(run), (torch.randn(32, 16),), 2 * 32 * 32 * 16


def low(module: nn.Module, *inputs: Any) -> Callable[[], Made]:
    """A module in bf16."""
    return lambda: (module.to(torch.bfloat16), tuple(x.to(torch.bfloat16) for x in inputs))


def recomputed(*, reentrant: bool) -> Callable[[], Made]:
    """Checkpointing, as old and as new code asks for it."""

    def make() -> Made:
        layers = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))

        def run(first: Any, inner: Any, x: Any) -> Any:
            return checkpoint(inner, first(x), use_reentrant=reentrant)

        return Run(run, first=nn.Linear(8, 8), inner=layers), (X,)

    return make


def lazy() -> Made:
    """A lazy layer that was called once."""
    module = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d())
    module(X)
    return module, (X,)


def einsums() -> Made:
    """Three forms: a trace of products, an outer product, and three operands."""

    def run(w: Any, x: Any) -> Any:
        outer = torch.einsum("bi,bj->bij", x, x)
        return torch.einsum("bij,jk,kl->bil", outer, w, w) + torch.einsum("...i,ij->...j", x, w)[..., None, :]

    return Run(run, (8, 8)), (X,)


def norms(kind: Callable[[nn.Module], nn.Module]) -> Callable[[], Made]:
    """A parametrized layer."""
    return lambda: (kind(nn.Linear(8, 8)), (X,))


SQUARE = (torch.randn(2, 3, 16, 16),)
TORCH: dict[str, Callable[[], Made]] = {
    "autograd.Function": lambda: (Run(lambda w, x: Doubled.apply(x, w), (8, 8)), (X,), LINEAR),
    "einsum": einsums,
    "convolution by fft": fft_convolution,
    "complex weights": complex_weights,
    "sparse matrix": sparse,
    "nested tensor": nested,
    "EmbeddingBag": lambda: (nn.EmbeddingBag(20, 8, mode="sum"), (torch.zeros(3, 5, dtype=torch.int64),), 0),
    "attention": attention(),
    "attention, causal": attention(is_causal=True),
    "attention, boolean mask": attention(torch.ones(6, 6, dtype=torch.bool).tril()),
    "attention, additive mask": attention(torch.zeros(2, 1, 6, 6)),
    "attention, dropout": attention(dropout_p=0.1),
    "attention, grouped queries": grouped_queries,
    "flex_attention": flex,
    "checkpoint": recomputed(reentrant=False),
    "checkpoint, reentrant": recomputed(reentrant=True),
    "vmap and functional_call": ensemble,
    "weight_norm": norms(parametrizations.weight_norm),
    "spectral_norm": norms(parametrizations.spectral_norm),
    "orthogonal": norms(parametrizations.orthogonal),
    "LSTM, packed": packed,
    "LSTM, projected": lambda: (
        nn.LSTM(8, 16, proj_size=4),
        (torch.randn(5, 2, 8),),
        2 * 10 * 16 * (4 * 12 + 4),
    ),
    "RNN": lambda: (nn.RNN(8, 16), (torch.randn(5, 2, 8),), 2 * 10 * 16 * (8 + 16)),
    "LSTMCell": lambda: (nn.LSTMCell(8, 16), (X,)),
    "ConvTranspose2d": lambda: (nn.ConvTranspose2d(3, 8, 3, stride=2, groups=1), SQUARE),
    "Conv3d, grouped": lambda: (nn.Conv3d(4, 8, 3, groups=2), (torch.randn(1, 4, 5, 6, 7),)),
    "Unfold and Fold": lambda: (
        nn.Sequential(nn.Conv2d(3, 4, 1), nn.Unfold(2, stride=2), nn.Fold(16, 2, stride=2)),
        SQUARE,
    ),
    "cdist": lambda: (Run(lambda w, x: torch.cdist(x, w), (5, 8)), (X,), 2 * 4 * 5 * 8),
    "torch.compile": lambda: (torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU())), (X,), LINEAR),
    "torch.jit.script": lambda: (torch.jit.script(nn.Linear(8, 8)), (X,)),
    "quantize_dynamic": quantized,
    "DataParallel": lambda: (nn.DataParallel(nn.Linear(8, 8)), (X,), LINEAR),
    "hooks, in-place, called twice": hooked,
    "tensors in dicts and dataclasses": dataclass_of_tensors,
    "modules in dicts": hidden_modules,
    "lazy layers": lazy,
    "bfloat16": low(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), X),
    "float8": float8,
    "linalg.solve": lambda: (Run(lambda w, x: torch.linalg.solve(w, x.T), (8, 8)), (X,)),
    "linalg.solve_triangular": lambda: (
        Run(lambda w, x: torch.linalg.solve_triangular(w.tril(), x.T, upper=False), (8, 8)),
        (X,),
    ),
    "an operation of torch.library": custom_op,
}
"""Makers of (module, inputs) or (module, inputs, FLOPs), by name."""
