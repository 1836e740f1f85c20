"""Modules of a running program: ranges of a trace and autograd nodes by the module that made them.

Hooks of all modules (`register_module_forward_hook`) are there only while a step is watched. A module that no
other one calls is a root; paths below it are those of its `named_modules`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as all_modules

from archcli.wings.running.recording.program import PREFIX, UNPLACED
from archcli.wings.running.runtime.model.op_log import AutogradLog, OpLog

WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
"""Steps of a path that wrappers of torch add."""
PARALLEL = "module"
"""The step that DistributedDataParallel and DataParallel add."""
ASKED = "_has_any_global_hook"
"""torch's function, since 2.9 or so, that tells whether a program has hooks on all modules."""
SEPARATOR = "|"
"""Between the number of a root and the path below it, in a label."""


class StepLog(AutogradLog):
    """The autograd nodes of a step by path; those made before it began are unplaced."""

    def owner(self, sequence: int) -> str:
        """The path of the module that made a node: empty outside of modules."""
        return UNPLACED if not self.entries or sequence < self.entries[0][0] else super().owner(sequence)


class ModuleRanges:
    """Labels the work of modules: by a range of the trace for each, and the log of their autograd nodes."""

    def __init__(self) -> None:
        self.log = OpLog()
        self.roots: list[nn.Module] = []
        self._labels: dict[int, str] = {}
        self._open: list[tuple[int, str, Any]] = []
        self._handles: list[Any] = []
        self._has_hooks: Callable[[], bool] | None = None
        self._thread = 0
        self.failure = ""

    def start(self, *, hooked: bool = True) -> None:
        """Begin a step: a new log, and hooks on all modules."""
        self.log.autograd = StepLog()
        self.log.current = ""
        self.log.autograd.begin("")
        self._open.clear()
        self._thread = threading.get_ident()
        if not hooked:
            return
        # torch warns of hooks on all modules where one is compiled: these fire there to no effect
        self._has_hooks = vars(all_modules).get(ASKED)
        if self._has_hooks is not None:
            there = self._has_hooks()
            setattr(all_modules, ASKED, lambda: there)
        self._handles = [
            all_modules.register_module_forward_pre_hook(self._enter),
            all_modules.register_module_forward_hook(self._leave, always_call=True),
        ]

    def end(self) -> None:
        """End the step: no hook is left."""
        self.unhook()
        while self._open:
            self._open.pop()[2].__exit__(None, None, None)

    def unhook(self) -> None:
        """Leave no hook; ranges that are open end with their thread."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._has_hooks is not None:
            setattr(all_modules, ASKED, self._has_hooks)
            self._has_hooks = None

    def forget(self) -> None:
        """Hold on to no module of the program any longer."""
        self.roots.clear()
        self._labels.clear()

    def called(self, module: nn.Module, inputs: Any) -> None:
        """Begin the range of a module that was called before the hooks were set."""
        if self._handles:
            self._enter(module, inputs)

    def _enter(self, module: nn.Module, _: Any) -> None:
        # a thread of its own, as of nn.DataParallel, has numbers of its own
        if threading.get_ident() != self._thread or torch.compiler.is_compiling() or self.failure:
            return
        try:
            label = self._label(module)
        except Exception as problem:  # noqa: BLE001 - the program goes on, whatever its modules are like
            self.failure = f"{type(problem).__name__}: {problem}"
            return
        marked = torch._C._profiler._RecordFunctionFast(PREFIX + label)
        marked.__enter__()
        self._open.append((id(module), label, marked))
        self._now(label)

    def _leave(self, module: nn.Module, *_: Any) -> None:
        if threading.get_ident() != self._thread or id(module) not in {opened[0] for opened in self._open}:
            return
        # an exception may have left inner modules open
        while self._open.pop()[0] != id(module):
            pass
        self._now(self._open[-1][1] if self._open else "")

    def _now(self, label: str) -> None:
        self.log.autograd.begin(label)
        self.log.current = label

    def _label(self, module: nn.Module) -> str:
        """The label of a module; one that is below no known root becomes a root itself."""
        if id(module) not in self._labels:
            root = _outermost(module)
            # kept, so that its id is nobody else's; known where modules were added to it since
            number = next((i for i, known in enumerate(self.roots) if known is root), len(self.roots))
            self.roots[number:] = self.roots[number:] or [root]
            for path, inner in _below(root):
                self._labels.setdefault(id(inner), f"{number}{SEPARATOR}{path}")
        return self._labels[id(module)]


def _outermost(module: nn.Module) -> nn.Module:
    """The outermost module around this one, whose own forward may never be called."""
    if not module._modules and not module._parameters:  # a loss, which may be made anew for each step
        return module
    # type(), as isinstance would ask objects of the program that pretend to be of another class
    holders = [it for it in gc.get_objects() if issubclass(type(it), nn.Module) and it is not module]
    while True:
        above = next((it for it in holders if any(x is module for _, x in _held(it))), None)
        if above is None:
            return module
        holders.remove(above)
        module = above


def _held(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The child modules by name; none where a program skipped `__init__`."""
    return [(name, it) for name, it in vars(module).get("_modules", {}).items() if it is not None]


def _below(
    module: nn.Module, path: str = "", known: set[int] | None = None
) -> Iterator[tuple[str, nn.Module]]:
    """torch's `named_modules`, which a program's class may override."""
    known = set() if known is None else known
    if id(module) in known:
        return
    known.add(id(module))
    yield path, module
    for name, inner in _held(module):
        yield from _below(inner, f"{path}.{name}" if path else name, known)


def _has_weights(root: nn.Module) -> bool:
    weights = (it for _, inner in _below(root) for _, it in vars(inner).get("_parameters", {}).items())
    return any(weight is not None for weight in weights)


class ModuleNames:
    """Paths of modules by label; where several roots have weights, behind the root's class.

    It holds names alone, so that a program's modules are freed when it drops them.
    """

    def __init__(self, roots: list[nn.Module]) -> None:
        weighted = [i for i, root in enumerate(roots) if _has_weights(root)]
        self.main = weighted[0] if len(weighted) == 1 else -1
        self.names, self.parallel = list[str](), [_is_parallel(root) for root in roots]
        for i, root in enumerate(roots):
            name = type(_unwrapped(root)).__name__
            # losses of one class are alike
            others = sum(known.partition("#")[0] == name for known in self.names) * (i in weighted)
            self.names.append(f"{name}#{others + 1}" if others else name)
        # the class of every module by its path
        self.classes = {
            self._path_below(number, path): type(inner).__name__
            for number, root in enumerate(roots)
            for path, inner in _below(root)
        }

    def path(self, label: str) -> str:
        """The path of a label; anything else, such as `(optimizer)`, stays."""
        number, separator, inner = label.partition(SEPARATOR)
        if not separator:
            return label
        return self._path_below(int(number), inner)

    def _path_below(self, number: int, inner: str) -> str:
        steps = inner.split(".") if inner else []
        if self.parallel[number] and steps[:1] == [PARALLEL]:
            steps = steps[1:]
        steps = [step for step in steps if step not in WRAPPERS]
        return ".".join(steps if number == self.main and steps else [self.names[number], *steps])


def _unwrapped(module: nn.Module) -> nn.Module:
    """The program's module inside torch's wrappers."""
    wrapped = {*WRAPPERS, *([PARALLEL] if _is_parallel(module) else [])}
    inner = next((it for name, it in _held(module) if name in wrapped), None)
    return module if inner is None else _unwrapped(inner)


def _is_parallel(module: nn.Module) -> bool:
    return type(module).__name__ in {"DistributedDataParallel", "DataParallel"}
