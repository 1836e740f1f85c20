"""Scripts: what a node's forward has torch do with inputs of given shapes, written down when they come again, played back from then on.

A forward asks nothing of a tensor but its shape, so that the same shapes lead to the same operations. The architecture is then not read
again: between two operations stands little more than the call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import torch
from torch import nn

from archcli.graph import Op, Tensor, tree_map
from archcli.runtime.model.leaves import Assignment
from archcli.runtime.model.tape import ChildRun, Listening, NodeTape, Run, called
from archcli.runtime.model.trees import rebuilder

if TYPE_CHECKING:
    from archcli.runtime.model.build import Node

SAME = frozenset({nn.Linear, nn.Embedding})
"""Modules that do what their op does on bare parameters."""

CALL = nn.Module.__call__
"""What torch does when a module is called: its hooks, around its forward."""

KEPT = 8
"""Shapes of inputs a node remembers, with a script or without: generating brings others at each token."""


class Step(NamedTuple):
    """Something to run, where its values stand, and which of those that stand somewhere are not needed afterwards."""

    run: Run
    takes: tuple[int, ...]
    last: tuple[int, ...]


class Script(NamedTuple):
    """The steps of a forward. Values stand in a list: the inputs, then what each step makes. Its answer is a `tree` of those at `out`."""

    steps: tuple[Step, ...]
    out: tuple[int, ...]
    tree: Callable[[list[Any]], Any]

    def play(self, node: Node, values: list[Any], routed: Assignment | None) -> list[Any]:
        """The tensors that the forward answers to others of the same shapes; of `values` those are let go that are needed no more."""
        for run, takes, last in self.steps:
            made = run(node, [values[place] for place in takes], routed)
            if isinstance(made, torch.Tensor):
                values.append(made)
            else:
                tree_map(values.append, torch.Tensor, made)
            for place in last:
                values[place] = None
        return [values[place] for place in self.out]


class Scripts(dict[Hashable, Script | None]):
    """Those of one node, by the shapes of its inputs, the newest few; None for inputs that came once. A copy of the node begins without."""

    def keep(self, key: Hashable, script: Script | None) -> None:
        """Keep the script, and the oldest no longer where there are too many."""
        if key not in self and len(self) >= KEPT:
            del self[next(iter(self))]
        self[key] = script

    def __reduce__(self) -> tuple[type[Scripts], tuple[()]]:
        return Scripts, ()


class Held(NamedTuple):
    """A tensor of the run that is written down, and its place among the values."""

    tensor: torch.Tensor
    place: int

    @property
    def shape(self) -> torch.Size:
        """Of the tensor."""
        return self.tensor.shape


def bare(module: nn.Module) -> bool:
    """Whether calling a module is calling its class's forward: it has no hooks of its own, and nothing stands in the forward's place."""
    own = vars(module)
    hooked = (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    )
    return (
        not (hooked or "forward" in own or own.get("_compiled_call_impl")) and type(module).__call__ is CALL
    )


def directly(op: Op) -> Run:
    """The op by its leaf, past what torch does around a module's forward where that is nothing."""

    def run(node: Node, values: list[Any], routed: Assignment | None) -> Any:
        leaf: Any = node.part(op.name)
        if not bare(leaf):
            return called(leaf, leaf, op, values, routed)
        if type(leaf) in SAME:
            return op.run(torch, leaf._parameters, *values)
        return called(leaf, leaf.forward, op, values, routed)

    return run


class Known(NamedTuple):
    """A child as it was when it played a script: the same one again, and as it was then, it would play it again."""

    child: ref[Any]
    training: bool
    listening: Listening | None
    script: Script

    def fits(self, child: nn.Module) -> bool:
        """Whether the child would do no more than play this."""
        return (
            self.child() is child
            and self.training is child.training
            and self.listening == child.listening
            and bare(child)
        )


class RememberingRun(ChildRun):
    """Plays the child's script itself, once it is known, where the child would do no more than that."""

    __slots__ = ("known",)

    def __init__(self, name: str, arguments: Callable[[list[Any]], Any], *, routes: bool) -> None:
        super().__init__(name, arguments, routes=routes)
        self.known: Known | None = None

    def __call__(self, node: Node, values: list[Any], routed: Assignment | None) -> Any:
        """What the child makes of the values."""
        child, known = self._child(node), self.known
        if known is None or not known.fits(child):
            return super().__call__(node, values, routed)
        own = Assignment(values.pop()) if self.routes else None
        return known.script.play(child, values, own)

    def _ask(self, child: Any, args: Any, expert_of: torch.Tensor | None) -> Any:
        made = super()._ask(child, args, expert_of)
        script = child.script_of(args, routed=self.routes) if hasattr(child, "script_of") else None
        self.known = None if script is None else Known(ref(child), child.training, child.listening, script)
        return made


class WritingTape(NodeTape):
    """Runs a node and writes down what it runs."""

    __slots__ = ("count", "written")
    child_run = RememberingRun

    def __init__(self, node: Node, routed: Assignment | None = None) -> None:
        super().__init__(node, routed)
        self.written: list[tuple[Run, tuple[int, ...]]] = []
        self.count = 0

    def hold(self, tree: Any) -> Any:
        """The tree on this tape, each tensor with the next place."""
        return tree_map(self._held, torch.Tensor, tree)

    def _held(self, tensor: torch.Tensor) -> Tensor:
        self.count += 1
        return Tensor(self, Held(tensor, self.count - 1))

    def _by_leaf(self, op: Op) -> Run:
        return directly(op)

    def _do(self, run: Run, values: list[Held]) -> Any:
        self.written.append((run, tuple(value.place for value in values)))
        return self.hold(run(self.node, [value.tensor for value in values], self.routed))

    def script(self, out: Any) -> Script:
        """What was written, for a forward that answers `out`."""
        leaves: list[Tensor] = []
        tree = rebuilder(out, Tensor, leaves)
        places = [leaf.value.place for leaf in leaves]
        steps = tuple(
            Step(*each, last) for each, last in zip(self.written, self._last_uses(set(places)), strict=True)
        )
        return Script(steps, tuple(places), tree)

    def _last_uses(self, wanted: set[int]) -> list[tuple[int, ...]]:
        """For each step, the places that no later step reads."""
        seen, found = set(wanted), list[tuple[int, ...]]()
        for _, takes in reversed(self.written):
            found.append(tuple(set(takes) - seen))
            seen.update(takes)
        return found[::-1]


def write(node: Node, args: Any, options: Any, routed: Assignment | None) -> tuple[Any, Script]:
    """Run the node's forward: its answer, and the script of it."""
    tape = WritingTape(node, routed)
    args, options = tape.hold((args, options))
    out = node.runs.forward(*args, **options)
    return tree_map(lambda x: x.value.tensor, Tensor, out), tape.script(out)
