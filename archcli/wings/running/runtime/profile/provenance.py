"""Provenance: the architecture's operations behind each kernel that inductor generates.

A node of a compiled graph carries the path of the operation that was traced; torch copies it from a node of
the forward to those of its gradient. If a pass of inductor replaces nodes, the new ones inherit their paths.
The list of nodes of a kernel then gives its operations, without guesses from names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import fx

from archcli.graph import Op
from archcli.wings.running.recording.kernels import CompiledGraph, GraphOp, Launch
from archcli.wings.running.recording.walk import operation
from archcli.wings.running.runtime.model.leaves import Assignment
from archcli.wings.running.runtime.model.node import OpHook
from archcli.wings.running.runtime.model.op_log import join
from archcli.wings.running.runtime.profile.census import is_view

ROW, PIECES = "archcli_row", "archcli_pieces"
"""Keys in the metadata of a graph node."""
ALIASES = {"bias_addmm": "addmm"}
"""Inductor's names of Python wrappers of torch's products."""


def annotated(path: str) -> OpHook:
    """The op hook that annotates the compiler's graph nodes with the operation's path."""

    def annotate(op: Op, _: Sequence[Any], __: Assignment | None) -> AbstractContextManager[Any]:
        annotation: AbstractContextManager[Any] = fx.traceback.annotate({ROW: join(path, op.name)})
        return annotation

    return annotate


class _OriginalNode(NamedTuple):
    """A graph node before inductor's passes: its pieces (operations), and the names of its inputs."""

    pieces: tuple[GraphOp, ...]
    inputs: frozenset[str]


class Provenance:
    """Records inductor's code generation: `graphs` in the order in which they were compiled."""

    def __init__(self, path_of: Callable[[fx.Node], str] | None = None) -> None:
        self.path_of = path_of or row_of
        self.graphs: list[CompiledGraph] = []
        self._owners: list[Any] = []
        self._seen: set[tuple[str, str]] = set()
        self._before: dict[str, _OriginalNode] = {}

    def remember(self, graph: fx.Graph) -> None:
        """Record the nodes before inductor's passes replace some."""
        self._before = {
            node.name: _OriginalNode(self.pieces_of(node), _names(node.all_input_nodes))
            for node in graph.nodes
        }

    def inherit_pieces(self, graph: fx.Graph) -> None:
        """Give new nodes the pieces of the nodes that they replaced."""
        left = {node.name for node in graph.nodes}
        gone = {name: known for name, known in self._before.items() if name not in left}
        roots: dict[str, frozenset[str]] = {}
        for node in graph.nodes:
            if node.op != "call_function" or node.name in self._before:
                continue
            # follow inputs through new nodes down to nodes that were there before
            roots[node.name] = frozenset[str]().union(
                *(roots.get(name, {name}) for name in _names(node.all_input_nodes))
            )
            pieces = tuple(
                dict.fromkeys(
                    piece for name in _replaced(gone, roots[node.name]) for piece in gone[name].pieces
                )
            )
            if pieces:
                node.meta[PIECES] = pieces

    def launched(self, name: str, nodes: Iterable[fx.Node], *, library: bool) -> None:
        """Record a kernel of the current graph, without nodes that an earlier kernel computes."""
        from torch._inductor.virtualized import V

        if V.graph not in self._owners:
            self._owners.append(V.graph)
            self.graphs.append(CompiledGraph(V.graph.is_backward))
        # nodes of torch.fx sort by their place in the graph
        named = [(node.name, piece) for node in sorted(nodes) for piece in self.pieces_of(node)]
        new = [piece for node, piece in named if (node, piece.path) not in self._seen]
        self._seen.update((node, piece.path) for node, piece in named)
        # a kernel that only recomputes nodes of earlier kernels still belongs to their operations
        pieces = dict.fromkeys(new or [piece for _, piece in named])
        self.graphs[self._owners.index(V.graph)].launches.append(
            Launch(operation(name), tuple(pieces), library)
        )

    def pieces_of(self, node: fx.Node) -> tuple[GraphOp, ...]:
        """The operations that a graph node belongs to; none for a view."""
        if PIECES in node.meta:
            pieces: tuple[GraphOp, ...] = node.meta[PIECES]
            return pieces
        # operator.getitem and other Python functions have no schema
        if node.op != "call_function" or not hasattr(node.target, "_schema") or is_view(node.target):
            return ()
        return (GraphOp(self.path_of(node), operation(node.target._schema.name)),)


def row_of(node: fx.Node) -> str:
    """The path of the operation that a graph node was traced in; empty for a sum of gradients."""
    # "custom" is where fx.traceback.annotate writes
    path: str = node.meta.get("custom", {}).get(ROW, "")
    return path


def _names(nodes: Iterable[fx.Node]) -> frozenset[str]:
    return frozenset(node.name for node in nodes)


def _replaced(gone: dict[str, _OriginalNode], roots: frozenset[str]) -> list[str]:
    """The removed nodes that a new node replaces: those computable from its inputs."""
    constants = {name for name, known in gone.items() if not known.inputs}
    chosen: dict[str, None] = {}
    # in the order of the graph, so that inputs are chosen before what is computed from them
    for name, known in gone.items():
        if (
            known.inputs
            and known.inputs & (roots | chosen.keys())
            and known.inputs <= roots | chosen.keys() | constants
        ):
            chosen[name] = None
    return list(chosen)


@contextmanager
def provenance() -> Iterator[Provenance]:
    """Record the provenance of every kernel that inductor generates within the block.

    inductor's cache of graphs is off, as a cached graph has no provenance; compiled C++ is cached.
    """
    from torch._dynamo import config as dynamo

    # dynamo counts by code object, and all variants of a process compile the same `forward`
    settings = {"recompile_limit": 1 << 16, "accumulated_recompile_limit": 1 << 16, "suppress_errors": False}
    with dynamo.patch(settings), noting(Provenance()) as noted:
        yield noted


@contextmanager
def noting(noted: Provenance) -> Iterator[Provenance]:
    """Let inductor tell `noted` of every kernel that it generates; dynamo is left as it is."""
    from torch._functorch import config as functorch
    from torch._inductor import config as inductor
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.scheduler import Scheduler

    # plain functions: torch.compile deep-copies its settings, and would copy the object of a bound method
    def before(graph: fx.Graph) -> None:
        noted.remember(graph)

    def after(graph: fx.Graph) -> None:
        noted.inherit_pieces(graph)

    settings = {
        # every generated kernel opens a range of its name in the trace
        "cpp.enable_kernel_profile": True,
        "cpp_wrapper": False,
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
        # both: passes replace nodes of the joint graph, and later of the forward and the backward graph
        "joint_custom_pre_pass": before,
        "joint_custom_post_pass": after,
        "post_grad_custom_pre_pass": before,
        "post_grad_custom_post_pass": after,
    }
    with ExitStack() as stack:
        stack.enter_context(inductor.patch(settings))
        stack.enter_context(functorch.patch({"enable_autograd_cache": False}))
        stack.enter_context(
            _callback_before(CppScheduling, "codegen_comment", lambda *args: _generated(noted, *args))
        )
        stack.enter_context(
            _callback_before(Scheduler, "codegen_extern_call", lambda *args: _called(noted, *args))
        )
        yield noted


@contextmanager
def _callback_before(owner: type, name: str, callback: Callable[..., None]) -> Iterator[None]:
    """Wrap a method of inductor so that a callback gets its arguments first."""
    method = vars(owner)[name]

    def both(*args: Any, **options: Any) -> Any:
        callback(*args, *options.values())
        return method(*args, **options)

    setattr(owner, name, both)
    try:
        yield
    finally:
        setattr(owner, name, method)


def _generated(noted: Provenance, _: Any, scheduled: Any, name: str) -> None:
    """Record a kernel that inductor generated."""
    from torch._inductor.virtualized import V

    computed = [part.node for part in scheduled if part.node is not None]
    nodes = {origin for node in computed for origin in node.origins}
    noted.launched(f"graph_{V.graph.graph_id}_{name}", nodes, library=False)


def _called(noted: Provenance, _: Any, scheduled: Any) -> None:
    """Record a library's kernel by its origin node; further origins belong to its inputs."""
    from torch._inductor import ir

    kernel = scheduled.node
    # MultiOutput is one result of a kernel, not a kernel
    if isinstance(kernel, ir.MultiOutput):
        return
    overload = kernel.op_overload if hasattr(kernel, "op_overload") else None
    if isinstance(overload, torch._ops.OpOverload):
        called = overload._schema.name
    else:
        name = (kernel.try_get_kernel_name() or type(kernel).__name__).rpartition(".")[2]
        called = ALIASES.get(name, name)
    origin = kernel.get_origin_node()
    noted.launched(called, kernel.origins if origin is None else [origin], library=True)
