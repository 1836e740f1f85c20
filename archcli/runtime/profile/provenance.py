"""Provenance: while inductor generates code, from which operations of the architecture each kernel that it launches was made.

A node of a compiled graph carries the path of the operation that was traced when it was made; torch hands it on from a node of the
forward to those of its gradient. Where a pass of inductor's puts new nodes in the place of others, these take over whose they were.
Nothing is guessed from names: a kernel's own list of nodes says what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import fx

from archcli.graph import Op
from archcli.recording.kernels import CompiledGraph, GraphOp, Launch
from archcli.recording.walk import operation
from archcli.runtime.model.leaves import Assignment
from archcli.runtime.model.node import OpHook
from archcli.runtime.model.op_hooks import join
from archcli.runtime.profile.census import is_view

ROW, PIECES = "archcli_row", "archcli_pieces"
ALIASES = {"bias_addmm": "addmm"}
"""Inductor's own name of a product that is a Python function around torch's."""


def annotated(path: str) -> OpHook:
    """The op hook of a node by which the nodes that a compiler traces carry the operation's path."""

    def annotate(op: Op, _: Sequence[Any], __: Assignment | None) -> AbstractContextManager[Any]:
        annotation: AbstractContextManager[Any] = fx.traceback.annotate({ROW: join(path, op.name)})
        return annotation

    return annotate


class _Known(NamedTuple):
    """A node as it was before inductor's passes: what it is a piece of, and the names of its inputs."""

    pieces: tuple[GraphOp, ...]
    inputs: frozenset[str]


class Provenance:
    """What was seen of the code generation: `graphs` in the order in which they were compiled."""

    def __init__(self) -> None:
        self.graphs: list[CompiledGraph] = []
        self._owners: list[Any] = []
        self._seen: set[tuple[str, str]] = set()
        self._before: dict[str, _Known] = {}

    def remember(self, graph: fx.Graph) -> None:
        """Note the nodes as they are before passes replace some."""
        self._before = {
            node.name: _Known(pieces_of(node), _names(node.all_input_nodes)) for node in graph.nodes
        }

    def mend(self, graph: fx.Graph) -> None:
        """Give nodes that a pass has put in the place of others the pieces of those."""
        left = {node.name for node in graph.nodes}
        gone = {name: known for name, known in self._before.items() if name not in left}
        given: dict[str, frozenset[str]] = {}
        for node in graph.nodes:
            if node.op != "call_function" or node.name in self._before:
                continue
            given[node.name] = frozenset[str]().union(
                *(given.get(name, {name}) for name in _names(node.all_input_nodes))
            )
            pieces = tuple(
                dict.fromkeys(
                    piece for name in _replaced(gone, given[node.name]) for piece in gone[name].pieces
                )
            )
            if pieces:
                node.meta[PIECES] = pieces

    def launched(self, name: str, nodes: Iterable[fx.Node], *, library: bool) -> None:
        """Enter a kernel of the graph that is being generated; nodes an earlier kernel held are computed again, and not entered."""
        from torch._inductor.virtualized import V

        if V.graph not in self._owners:
            self._owners.append(V.graph)
            self.graphs.append(CompiledGraph(V.graph.is_backward))
        found = [(node.name, piece) for node in sorted(nodes) for piece in pieces_of(node)]
        new = [piece for node, piece in found if (node, piece.path) not in self._seen]
        self._seen.update((node, piece.path) for node, piece in found)
        pieces = dict.fromkeys(new or [piece for _, piece in found])
        self.graphs[self._owners.index(V.graph)].launches.append(
            Launch(operation(name), tuple(pieces), library)
        )


def pieces_of(node: fx.Node) -> tuple[GraphOp, ...]:
    """What a node computes, of which operation; nothing where it is another look at its argument."""
    if PIECES in node.meta:
        pieces: tuple[GraphOp, ...] = node.meta[PIECES]
        return pieces
    if node.op != "call_function" or not hasattr(node.target, "_schema") or is_view(node.target):
        return ()
    return (GraphOp(node.meta.get("custom", {}).get(ROW, ""), operation(node.target._schema.name)),)


def _names(nodes: Iterable[fx.Node]) -> frozenset[str]:
    return frozenset(node.name for node in nodes)


def _replaced(gone: dict[str, _Known], given: frozenset[str]) -> list[str]:
    """Which of the nodes that are gone can be computed from what is given to a new one: those that it stands for."""
    constants = {name for name, known in gone.items() if not known.inputs}
    chosen: dict[str, None] = {}
    for name, known in gone.items():
        if (
            known.inputs
            and known.inputs & (given | chosen.keys())
            and known.inputs <= given | chosen.keys() | constants
        ):
            chosen[name] = None
    return list(chosen)


@contextmanager
def provenance() -> Iterator[Provenance]:
    """Let inductor name every kernel in a trace, and note what each was made from; its settings are as before afterwards.

    Graphs are generated anew, not taken from a cache that knows nothing of this; what the C++ compiler made of one is.
    """
    from torch._dynamo import config as dynamo
    from torch._functorch import config as functorch
    from torch._inductor import config as inductor
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.scheduler import Scheduler

    found = Provenance()
    settings = {
        "cpp.enable_kernel_profile": True,
        "cpp_wrapper": False,
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
        "joint_custom_pre_pass": found.remember,
        "joint_custom_post_pass": found.mend,
        "post_grad_custom_pre_pass": found.remember,
        "post_grad_custom_post_pass": found.mend,
    }
    with ExitStack() as stack:
        stack.enter_context(inductor.patch(settings))
        stack.enter_context(functorch.patch({"enable_autograd_cache": False}))
        stack.enter_context(
            dynamo.patch(
                {"recompile_limit": 1 << 16, "accumulated_recompile_limit": 1 << 16, "suppress_errors": False}
            )
        )
        stack.enter_context(
            _beside(CppScheduling, "codegen_comment", lambda *given: _generated(found, *given))
        )
        stack.enter_context(_beside(Scheduler, "codegen_extern_call", lambda *given: _called(found, *given)))
        yield found


@contextmanager
def _beside(owner: type, name: str, told: Callable[..., None]) -> Iterator[None]:
    """Let a method of inductor's also tell somebody what it was called with."""
    method = vars(owner)[name]

    def both(*args: Any, **options: Any) -> Any:
        told(*args, *options.values())
        return method(*args, **options)

    setattr(owner, name, both)
    try:
        yield
    finally:
        setattr(owner, name, method)


def _generated(found: Provenance, _: Any, scheduled: Any, name: str) -> None:
    """A kernel of inductor's own."""
    from torch._inductor.virtualized import V

    nodes = {origin for one in scheduled if one.node is not None for origin in one.node.origins}
    found.launched(f"graph_{V.graph.graph_id}_{name}", nodes, library=False)


def _called(found: Provenance, _: Any, scheduled: Any) -> None:
    """A kernel that torch has ready; the origin of one is a single node, its other origins those of its inputs."""
    from torch._inductor import ir

    kernel = scheduled.node
    if isinstance(kernel, ir.MultiOutput):  # one of the results of a kernel
        return
    overload = getattr(kernel, "op_overload", None)
    if isinstance(overload, torch._ops.OpOverload):
        called = overload._schema.name
    else:
        own = (kernel.try_get_kernel_name() or type(kernel).__name__).rpartition(".")[2]
        called = ALIASES.get(own, own)
    origin = kernel.get_origin_node()
    found.launched(called, kernel.origins if origin is None else [origin], library=True)
