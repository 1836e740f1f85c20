"""shard: the share of a model that one rank of a plan holds and computes, as a model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any, ClassVar, TypeVar

from archcli.arith import Number, maximum, minimum
from archcli.errors import ArchError
from archcli.graph import Tape
from archcli.modules.adapters.adapted import Adapted
from archcli.modules.attention.mixer import Mixer
from archcli.modules.models.model import Model
from archcli.modules.models.stack import stacks
from archcli.modules.spec.base import Spec, find, substitute
from archcli.modules.spec.degrees import Degrees
from archcli.modules.tensor_parallel.checks import check_degrees, degree_of
from archcli.modules.tensor_parallel.gathered import GatheredNorm
from archcli.modules.tensor_parallel.layouts import Layout, layout_of
from archcli.modules.tensor_parallel.tape import ShardTape

M = TypeVar("M", bound=Model)
FULL = "full"
"""The norm of queries and keys that sees all heads at once."""


def shard(
    model: M,
    tp: int = 1,
    *,
    sp: bool = False,
    ep: int = 1,
    rank: int = 0,
    groups: int = 1,
    copies_experts: bool = False,
) -> M:
    """The model of one rank: its rows are the rank's shapes, parameters, FLOPs, cache and communication.

    Heads, hidden channels and words are divided by `tp`, heads of keys and values held by several ranks where
    there are fewer of them (arXiv:1909.08053, arXiv:2305.13245 section 2.2). Experts are divided by `ep`, and
    what is left of `tp` divides the hidden channels of each; with `copies_experts` some are on several ranks
    where `ep` does not divide their number, so that all have as many. With `groups` of so many ranks,
    feed-forward networks are divided among all ranks, all else within each group. Every rank has norms,
    routers, latents, position tables and what else is small. With `sp` norms and residuals have 1/tp of the
    tokens (arXiv:2205.05198). Ranks differ in their part of the vocabulary alone; 0, the default, has the
    largest.

    Raises ArchError for a model that cannot be split so, with the degrees that would do.
    """
    degrees = Degrees(tp, sp, ep, rank, groups)
    check_degrees(model, degrees, copies_experts=copies_experts)
    if degrees.of_networks == 1 and ep == 1:
        return model
    changed = substitute(model, dict(_changes(model, degrees)))
    cls: Any = type(changed)  # mypy takes no class of a type variable for hashable
    return _sharded(cls, degrees).unchecked(**{name: getattr(changed, name) for name in changed.fields})


class Sharded:
    """A model that runs on a ShardTape; the base of the classes that `shard` makes."""

    degrees: ClassVar[Degrees]

    @property
    def adapted(self: Any) -> Any:
        """The module to trace: the model between the exchanges of its plan, adapters included."""
        return Adapted(self, partial(_around, lora=self.lora, degrees=self.degrees))


def _around(tape: Tape, lora: Any, degrees: Degrees) -> ShardTape:
    """The tape of the exchanges, around that of the adapters if there are any."""
    if lora is not None:
        from archcli.modules.adapters.lora import AdaptTape  # few models have adapters

        if lora.dora:
            raise ArchError("norms of DoRA are of whole matrices, and ranks hold parts", "--tp 1 --ep 1")
        tape = AdaptTape(tape, lora)
    return ShardTape(tape, degrees, scattered=degrees.sp, ranks=degrees.tp)


@cache
def _sharded(cls: Any, degrees: Degrees) -> Any:
    """A subclass of the model's class that holds the degrees, so that `substitute` keeps them."""
    namespace = {"degrees": degrees, "__module__": cls.__module__}
    return type(cls.__name__, (Sharded, cls), namespace)


def _changes(model: Model, degrees: Degrees) -> Iterator[tuple[str, Any]]:
    """(full path, the rank's value) of every field that is split."""
    if degrees.tp > 1:
        yield from _vocabulary(model, degrees)
    for path, module in find(model, Spec):
        layout, ranks = layout_of(module), degree_of(path, module, degrees)
        if layout is None or ranks == 1:
            continue
        yield from _fields(path, module, layout, ranks)
        yield from _norms(path, module, layout, ranks)
        if isinstance(module, Mixer):
            yield from _widths(path, module, width_at(model, path), degrees.tp)


def _vocabulary(model: Model, degrees: Degrees) -> Iterator[tuple[str, Any]]:
    """The rank's words, of every table of words."""
    vocab_size = degrees.chunk(model.vocab_size)
    yield "vocab_size", vocab_size
    extra = model.embedding.extra_rows
    if extra:
        yield "embedding.extra_rows", degrees.chunk(model.vocab_size + extra) - vocab_size
    for name in ("encoder", "per_layer_embedding"):
        size = getattr(getattr(model, name, None), "vocab_size", None)
        if size is not None:
            yield f"{name}.vocab_size", degrees.chunk(size)


def _fields(path: str, module: Any, layout: Layout, tp: int) -> Iterator[tuple[str, Any]]:
    for name in layout.divided:
        value = value_at(module, name)
        if value is not None:
            yield f"{path}.{name}", value // tp
    copied = getattr(module, layout.copied, None) if layout.copied else None
    if copied is not None:
        # a rank has one head of keys and values at least
        yield f"{path}.{layout.copied}", maximum(copied // tp, 1)


def _norms(path: str, module: Any, layout: Layout, tp: int) -> Iterator[tuple[str, Any]]:
    for name in layout.norms:
        norm = getattr(module, name, None)
        if norm is not None:
            yield f"{path}.{name}", GatheredNorm.unchecked(norm=norm, ranks=tp)
    of_heads = getattr(module, "qk_norm", None)
    if of_heads is not None and of_heads.per == FULL:
        # fewer heads of keys than ranks: several ranks hold the same one, and each is gathered once
        keys = minimum(module.kv_heads, tp)
        norms = {"norm": of_heads.norm, "ranks": tp, "of_op": {"k_norm": keys}}
        yield f"{path}.qk_norm.norm", GatheredNorm.unchecked(**norms, counted_in=of_heads.group)


def _widths(path: str, mixer: Any, d_model: Number, tp: int) -> Iterator[tuple[str, Any]]:
    """Widths that are left out, stated: a rank has fewer heads, not wider ones."""
    if "head_dim" in mixer.fields and mixer.head_dim is None:
        yield f"{path}.head_dim", d_model // mixer.n_heads
    if getattr(mixer, "kind", "") == "rwkv4" and mixer.width is None:
        yield f"{path}.width", d_model // tp


def width_at(model: Model, path: str) -> Number:
    """The width of the residual stream of the stack in which a path lies."""
    for prefix, stack in stacks(model):
        if prefix and path.startswith(prefix):
            return getattr(stack, "d_model", None) or model.d_model
    return model.d_model


def value_at(module: Any, path: str) -> Any:
    """The value of a field below a module; None where a step of the path is not there."""
    for step in path.split("."):
        module = getattr(module, step, None)
    return module
