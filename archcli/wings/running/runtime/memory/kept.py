"""Kept: what autograd keeps of a training forward of a built model, or of one operation on its own.

Saved: a recorder of the tensors that autograd saves, by operation of the architecture. It listens through
`torch.autograd.graph.saved_tensors_hooks`, which torch calls with each tensor that a node of its graph
saves. What makes its figures exact:

- a storage counts once and whole, whichever views of it are saved and however many nodes save them;
- weights, buffers, ids and targets are there anyway, and are left out;
- tensors of no axes are constants of an expression (8 bytes at most), and are left out;
- a node saves its output before the operation has returned it, so that operations are judged at their end;
- no dispatch mode is active: under one, some composite operations of torch take other ways
  (`areAnyTensorSubclassLike` holds).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import nn

from archcli.arith import Shape
from archcli.graph import Op
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.dtypes import DTYPES, default_dtype
from archcli.wings.running.runtime.memory.models import WitnessSetting, loss_of, prepared
from archcli.wings.running.runtime.memory.observe import observed
from archcli.wings.running.runtime.memory.storages import StorageLedger, address, tensors_in
from archcli.wings.running.runtime.model.leaves import ON_META, Assignment, StackedLinear, leaf_of
from archcli.wings.running.runtime.model.node import EAGER, FUSED

OUTSIDE = ""
"""The path of work that is part of no operation, such as a loss outside of the model."""


@dataclass(frozen=True, slots=True)
class SavedByOp:
    """A storage that the nodes of one operation save.

    `role` is "in" or "out", with the `index` of the input or output whose storage it is (the first one, where
    several share it), "new" for one that the operation made for its backward alone, "other" for one that
    reached it in another way, made by the operation at `maker`.
    """

    role: str
    index: int
    bytes: int
    maker: str

    def __str__(self) -> str:
        if self.role in {"in", "out"}:
            return f"{self.role.title()}({self.index})"
        return f"New({self.bytes})" if self.role == "new" else f"Other({self.bytes} of {self.maker})"


@dataclass(frozen=True)
class KeptStorage:
    """One kept storage: its bytes, the operation that created it, and the operations that keep it."""

    bytes: int
    maker: str
    keepers: tuple[str, ...]


@dataclass(frozen=True)
class KeptStorages:
    """All that autograd keeps of a forward: `storages`, each once, and what each operation saves by path."""

    storages: tuple[KeptStorage, ...]
    by_op: dict[str, tuple[SavedByOp, ...]]

    @property
    def bytes(self) -> int:
        """Bytes of all storages."""
        return sum(storage.bytes for storage in self.storages)

    def bytes_by_op(self) -> dict[str, int]:
        """Kept bytes by the path of the operation that made them."""
        sizes: dict[str, int] = {}
        for storage in self.storages:
            sizes[storage.maker] = sizes.get(storage.maker, 0) + storage.bytes
        return sizes


@dataclass
class _Running:
    """The operation that runs: its inputs, its outputs once it returned, and what its nodes saved."""

    path: str
    inputs: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor] = ()
    saved: list[torch.Tensor] = field(default_factory=list)


class KeptRecorder:
    """Records what autograd saves within the block, by operation of an observed model.

    `inputs` are the tensors that are not counted. It holds every storage that it sees: on a CPU with real
    tensors nothing of the forward is freed until it is dropped.
    """

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        self._ledger = StorageLedger(inputs)
        self._keepers: dict[int, tuple[torch.Tensor, dict[str, None]]] = {}
        self._by_op: dict[str, dict[int, SavedByOp]] = {}
        self._op = _Running(OUTSIDE, ())
        self._hooks: Any = None

    def __enter__(self) -> Self:
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._saved, _unchanged)
        self._hooks.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._hooks.__exit__(*exception)

    def began(self, path: str, op: Op, inputs: Sequence[Any]) -> None:
        """An operation begins; what nobody was seen to make before came from outside."""
        self._settle()
        tensors = tensors_in(inputs)
        self._ledger.enter(tensors, OUTSIDE)
        self._op = _Running(path, tensors)

    def returned(self, path: str, op: Op, outputs: Any) -> None:
        """An operation returned: what is new of it is its own."""
        self._op.outputs = tensors_in(outputs)
        self._ledger.enter(self._op.outputs, path)

    def ended(self, path: str) -> None:
        """An operation ended; what is saved from here on is not its doing."""
        self._settle()

    def kept(self) -> KeptStorages:
        """All that was saved so far."""
        self._settle()
        storages = [
            KeptStorage(tensor.untyped_storage().nbytes(), self._ledger.of(tensor).maker, tuple(keepers))
            for tensor, keepers in self._keepers.values()
        ]
        by_op = {path: tuple(saved.values()) for path, saved in self._by_op.items()}
        return KeptStorages(tuple(storages), by_op)

    def _saved(self, tensor: torch.Tensor) -> torch.Tensor:
        """A node saves a tensor."""
        if tensor.ndim and not self._ledger.is_given(tensor):
            self._op.saved.append(tensor)
        return tensor

    def _settle(self) -> None:
        """Book what the running operation's nodes saved."""
        # only now: a node saves its output before the operation has returned it
        running, self._op = self._op, _Running(OUTSIDE, ())
        for tensor in running.saved:
            self._ledger.enter([tensor], running.path)
            _, keepers = self._keepers.setdefault(address(tensor), (tensor, {}))
            keepers[running.path] = None
            saved = self._by_op.setdefault(running.path, {})
            saved.setdefault(address(tensor), self._role(running, tensor))

    def _role(self, running: _Running, tensor: torch.Tensor) -> SavedByOp:
        """What a saved tensor is to the operation that saves it."""
        storage, maker = self._ledger.of(tensor)
        # inputs first: an output that is a view of one shares its storage
        for role, tensors in (("in", running.inputs), ("out", running.outputs)):
            for i, known in enumerate(tensors):
                if address(known) == storage._cdata:
                    return SavedByOp(role, i, storage.nbytes(), maker)
        return SavedByOp("new" if maker == running.path else "other", 0, storage.nbytes(), maker)


def _unchanged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


DEFAULT = WitnessSetting()


def kept_of_pass(
    model: nn.Module, inputs: dict[str, torch.Tensor], outputs: Any = None
) -> tuple[KeptStorages, Any]:
    """What autograd keeps of one forward of the built model on its inputs by name; and what it returned.

    `outputs`, if given, is a function of what the model returned, such as a loss outside of it: it runs while
    torch is watched, its storages made by no operation ("").
    """
    tensors = [*model.parameters(), *model.buffers(), *inputs.values()]
    with KeptRecorder(tensors) as recorder, observed(model, recorder):
        out = model(**inputs)
        if outputs is not None:
            out = outputs(out)
    return recorder.kept(), out


def kept_of_model(
    spec: Model,
    batch_size: int,
    seq_len: int,
    setting: WitnessSetting = DEFAULT,
    *,
    loss: bool = False,
    source_len: int | None = None,
) -> KeptStorages:
    """What autograd keeps of an architecture's training forward, with the plain loss outside if asked.

    Example: `kept_of_model(load("gpt2"), 2, 64).bytes`.
    """
    request = Request("train", batch_size, seq_len, source_len=source_len).resolved()
    with prepared(spec, request, setting) as (model, inputs):
        after = partial(loss_of, targets=inputs["tokens"]) if loss and "targets" not in inputs else None
        return kept_of_pass(model, inputs, after)[0]


class OpRun(NamedTuple):
    """One run of an operation on tensors of its own: what its backward keeps, its inputs and outputs."""

    saved: tuple[SavedByOp, ...]
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]


def kept_by_op(op: Op, *inputs: torch.Tensor | Shape, **options: Any) -> tuple[SavedByOp, ...]:
    """What the backward of one operation keeps, run in training on tensors of its own.

    Options are those of `run_of_op`.

    Example: `kept_by_op(Activate("silu", "silu"), (2, 64, 128))` is `(SavedByOp("in", 0, 32768, ""),)`.
    """
    return run_of_op(op, *inputs, **options).saved


def run_of_op(
    op: Op,
    *inputs: torch.Tensor | Shape,
    setting: WitnessSetting = DEFAULT,
    needs: Sequence[bool] | None = None,
    trained: bool = True,
    expert_of: torch.Tensor | None = None,
    n_experts: int | None = None,
) -> OpRun:
    """Run one operation in training on tensors of its own, and watch what its backward keeps.

    An input is a tensor, or a shape for one of the setting's dtype and device. `needs` says which inputs need
    a gradient: by default those given as shapes and floating-point tensors. With `trained` False its weights
    are frozen. Routed experts are given `n_experts` and the expert of each token.
    """
    tensors = _as_tensors(inputs, setting, needs)
    shapes = [tuple(x.shape) for x in tensors]
    with default_dtype(DTYPES[setting.dtype]), torch.device(setting.device):
        leaf = leaf_of(op, shapes, n_experts)
    excepted = [] if leaf is None else [*leaf.requires_grad_(trained).parameters(), *leaf.buffers()]
    with setting.operators(), KeptRecorder(excepted) as recorder:
        recorder.began(op.name, op, tensors)
        outputs = _run(op, leaf, tensors, setting, expert_of)
        recorder.returned(op.name, op, outputs)
        recorder.ended(op.name)
    saved = recorder.kept().by_op.get(op.name, ())
    return OpRun(saved, tuple(tensors), tuple(tensors_in(outputs)))


def _run(
    op: Op, leaf: nn.Module | None, tensors: Sequence[torch.Tensor], setting: WitnessSetting, expert_of: Any
) -> Any:
    """The outputs of the operation, run as the node of a built model in training runs it."""
    if leaf is None:
        form = EAGER if setting.attention == "eager" else FUSED
        return getattr(op.in_training(), form)(torch, {}, *tensors)
    leaf.train()
    for stack in (leaf,) if isinstance(leaf, StackedLinear) else ():
        stack.form = ON_META if setting.device == "meta" else "grouped"
    return leaf(*tensors) if expert_of is None else leaf(*tensors, routed=Assignment(expert_of))


def _as_tensors(
    inputs: Sequence[Any], setting: WitnessSetting, needs: Sequence[bool] | None
) -> list[torch.Tensor]:
    """The inputs as tensors of their own, which need gradients where `needs` says so."""
    dtype, device = DTYPES[setting.dtype], setting.device
    tensors = [
        x if isinstance(x, torch.Tensor) else torch.zeros(tuple(x), dtype=dtype, device=device)
        for x in inputs
    ]
    wanted = [x.is_floating_point() for x in tensors] if needs is None else needs
    return [x.detach().requires_grad_(want) for x, want in zip(tensors, wanted, strict=True)]
