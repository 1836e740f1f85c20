"""One watched run of a user's own module, on fake or real tensors, with or without a backward."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves

from archcli.errors import ArchError, closest, either, quote, suggest
from archcli.wings.running.recording.own import AttentionCalls, ModuleRun, StepMemory, Uncounted
from archcli.wings.running.runtime.dtypes import dtype_name
from archcli.wings.running.runtime.memory.peak import LiveStorages
from archcli.wings.running.runtime.memory.storages import address, stored_in, tensors_in
from archcli.wings.running.runtime.own.failures import told_of_failures
from archcli.wings.running.runtime.own.fake import unregistered_tensors, without_values
from archcli.wings.running.runtime.own.rows import owned_weights, rows_of
from archcli.wings.running.runtime.own.values import KnownValues
from archcli.wings.running.runtime.own.watch import ModuleWatch, Visit, watching

Loss = Callable[..., Any]
TRAIN = "train"


@dataclass(frozen=True)
class OwnCall:
    """A call of a module.

    args, kwargs: its arguments.
    source: the module's origin, as text.
    method: the called method.
    phase: forward or train.
    run_on: meta, cpu or cuda.
    loss: a function of the output; None for the loss in the output, else its sum.
    """

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    method: str = "forward"
    phase: str = "forward"
    run_on: str = "meta"
    loss: Loss | None = None

    @property
    def trains(self) -> bool:
        """Whether a backward follows."""
        return self.phase == TRAIN

    def described(self) -> list[str]:
        """The tensors among its arguments, as `ids=int64[1,2048]`."""
        named = [*zip(self.parameter_names(), self.args, strict=False), *self.kwargs.items()]
        return [f"{name}={form_text(x.dtype, x.shape)}" for name, value in named for x in tensors_in(value)]

    def typed(self) -> list[str]:
        """As `described`; without tensors the types of arguments, as `input=ndarray`."""
        named = [*zip(self.parameter_names(), self.args, strict=False), *self.kwargs.items()]
        return self.described() or [f"{name}={type(value).__name__}" for name, value in named]

    def parameter_names(self) -> Iterator[str]:
        """Names of the positional arguments."""
        names = [
            name
            for name, parameter in _signature(self.module, self.method).parameters.items()
            if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        ]
        yield from names
        yield from (f"input{i}" for i in range(len(names), len(self.args)))

    def checked(self) -> OwnCall:
        """The call itself. Raises ArchError for wrong arguments, and for modules that cannot be watched."""
        _require_watchable(self.module)
        _require_shapes(self.module)
        signature = _signature(self.module, self.method)
        takes = signature.parameters
        what = f"{type(self.module).__name__}.{self.method}"
        takes_any = any(x.kind is inspect.Parameter.VAR_KEYWORD for x in takes.values())
        for name in self.kwargs:
            if name not in takes and not takes_any:
                raise ArchError(f"{what} takes no {quote(name)}", suggest(name, takes, "it takes"))
        try:
            signature.bind(*self.args, **self.kwargs)
        except TypeError as error:
            described = ", ".join(self.described())
            raise ArchError(
                f"{what}: {error}{f'; given were {described}' if described else ''}",
                _example(self.module, takes),
            ) from None
        return self


def _example(module: nn.Module, takes: Iterable[str]) -> str:
    """A hint: the arguments of a method, and an example of its first input."""
    names = list(takes)
    if not names:
        return "it takes nothing"
    first = f"{names[0]}={'int64' if names[0].endswith('ids') else usual_dtype(module)}[1,8]"
    return f"it takes {', '.join(names)}: give tensors, or texts as --input '{first}' does"


def usual_dtype(module: nn.Module) -> str:
    """The dtype of a module's first input: int64 where its first weights are a table of embeddings."""
    first = next(
        (child for child in module.modules() if next(child.parameters(recurse=False), None) is not None), None
    )
    return "int64" if isinstance(first, nn.Embedding) else "float32"


def _require_watchable(module: nn.Module) -> None:
    """Raise ArchError for modules whose calls do not run in Python (TorchScript)."""
    for path, child in module.named_modules():
        if isinstance(child, torch.jit.ScriptModule):
            what = f"{path or 'the module'} is compiled by TorchScript, and its calls cannot be watched"
            raise ArchError(what, "give the module that it was made from")


def _require_shapes(module: nn.Module) -> None:
    """Raise ArchError for lazy weights, which have no shape yet."""
    for name, weight in module.named_parameters():
        if is_lazy(weight):
            raise ArchError(f"{name} has no shape before the first call", "call the module once")


def _signature(module: nn.Module, method: str) -> inspect.Signature:
    name = type(module).__name__
    function = getattr(module, method) if hasattr(module, method) else None
    if not callable(function):
        methods = [word for word in vars(type(module)) if not word.startswith("_")]
        near = closest(method, [*methods, "forward"])
        hint = f"did you mean {either(near)}?" if near else "--call (call=) names one; forward is usual"
        raise ArchError(f"{name} has no method {quote(method)}", hint)
    # a module may have one of its own, beside its class
    if method == "forward" and method not in vars(module) and type(module).forward is nn.Module.forward:
        raise ArchError(f"{name} has no forward of its own", "--call (call=) names another method")
    return inspect.signature(function)


def form_text(dtype: torch.dtype, shape: Sequence[int]) -> str:
    """A tensor's dtype and shape: int64[1,2048]."""
    return f"{dtype_name(dtype)}[{','.join(map(str, shape))}]"


class Ran(NamedTuple):
    """The result of a watched run: the watch, and the memory if it was measured."""

    watch: ModuleWatch
    memory: StepMemory | None


def run_module(call: OwnCall, *, memory: bool = False) -> ModuleRun:
    """Run a module once and read its rows; the module is unchanged. Raises ArchError if it fails."""
    call = call.checked()
    ran = _watched(call, memory=memory)
    counts = ran.watch.uncounted.items()
    return replace(
        _record(call, ran.watch.visits),
        uncounted=[Uncounted(op, path, calls) for (op, path), calls in counts],
        attention=list(_attention(ran.watch.visits)),
        memory=ran.memory,
    )


def weights_of(call: OwnCall) -> ModuleRun:
    """The rows of a module's weights, for which nothing has to run. Raises ArchError without their shapes."""
    _require_shapes(call.module)
    return _record(call, ())


def _record(call: OwnCall, visits: Sequence[Visit]) -> ModuleRun:
    """The rows of a module's weights and of its calls, with the bytes of both."""
    module = call.module
    owned = owned_weights(module)
    dtypes: Counter[str] = Counter()
    for weight in module.parameters():
        dtypes[dtype_name(weight.dtype)] += weight.numel() * weight.element_size()
    return ModuleRun(
        name=type(module).__name__,
        source=call.source,
        phase=call.phase,
        run_on=call.run_on,
        inputs=call.described(),
        rows=rows_of(module, visits, owned),
        ties=owned.ties,
        trained=sum(x.numel() for x in module.parameters() if x.requires_grad),
        buffers=sum(x.numel() * x.element_size() for x in module.buffers()),
        dtypes=dict(dtypes),
    )


def _attention(visits: Sequence[Visit]) -> Iterator[AttentionCalls]:
    """Calls of attention kernels by their mask: none, causal, given or unknown."""
    costs = [op.cost for visit in visits for op in visit.ran if op.cost.mask]
    for mask in dict.fromkeys(cost.mask for cost in costs):
        of_mask = [cost for cost in costs if cost.mask == mask]
        yield AttentionCalls(
            mask, len(of_mask), sum(x.flops for x in of_mask), sum(x.executed for x in of_mask)
        )


def _watched(call: OwnCall, *, memory: bool) -> Ran:
    module = call.module
    with ExitStack() as stack:
        stack.enter_context(as_asked(call))
        inputs, values = _tensors_of(call, stack)
        watch = ModuleWatch(module, values)
        stack.enter_context(told_of_failures(call.run_on, call.typed, watch))
        held = [*module.parameters(), *module.buffers(), *unregistered_tensors(module), *_inputs_in(inputs)]
        stack.enter_context(watching(module, watch))
        live = LiveStorages(held, lambda: _place(watch))
        if memory:
            stack.enter_context(live)
        kept = one_pass(call, inputs, live)
        return Ran(watch, _memory(call, inputs, live, kept) if memory else None)


def _tensors_of(call: OwnCall, stack: ExitStack) -> tuple[Any, KnownValues]:
    """The arguments of the run, fake or real, and the known values of fake ones."""
    inputs = (call.args, dict(call.kwargs))
    if call.run_on == "meta":
        return stack.enter_context(without_values(call.module, inputs))
    for name, weight in [*call.module.named_parameters(), *call.module.named_buffers()]:
        if weight.device.type == "meta":
            what = f"{name} has no values, so nothing can run on {call.run_on}"
            raise ArchError(what, f"build it on {call.run_on}")
        if weight.device.type != call.run_on:
            what = f"{name} is on {weight.device.type}, and the module is to run on {call.run_on}"
            raise ArchError(what, f"move it: module.to({call.run_on!r})")
    return inputs, KnownValues(None)


def one_pass(call: OwnCall, inputs: Any, live: LiveStorages | None = None) -> int:
    """Run the forward, and the backward where it trains; returns the bytes that live between both."""
    args, kwargs = inputs
    run = call.module if call.method == "forward" else getattr(call.module, call.method)
    with torch.set_grad_enabled(call.trains):
        out = run(*args, **kwargs)
        kept = 0 if live is None else live.now
        if call.trains:
            loss = (call.loss or loss_of)(out)
            # a training loop holds no output during the backward: a reference would keep it alive
            del out
            if not torch.is_tensor(loss) or loss.numel() != 1:
                raise ArchError("the loss is no tensor of one element", "out.mean() is one")
            if not loss.requires_grad:
                raise ArchError("nothing in the output depends on a trained weight", "it has no backward")
            loss.backward()
            del loss
    return kept


def loss_of(out: Any) -> torch.Tensor:
    """The loss in a model's output where it has one, else the sum of what depends on a weight."""
    loss = out.get("loss") if isinstance(out, Mapping) else None
    if torch.is_tensor(loss):
        return loss
    tensors = [x for x in tensors_in(out) if x.requires_grad]
    if not tensors:
        raise ArchError("nothing in the output depends on a trained weight", "it has no backward")
    total: torch.Tensor = sum((x.sum() for x in tensors[1:]), tensors[0].sum())
    return total


def _place(watch: ModuleWatch) -> tuple[str, str]:
    visit, stage = watch.place()
    return visit.path, stage


def _memory(call: OwnCall, call_inputs: Any, live: LiveStorages, kept: int) -> StepMemory:
    module = call.module
    constants = [*module.buffers(), *unregistered_tensors(module)]
    weights, buffers, inputs = _bytes(module.parameters()), _bytes(constants), _bytes(_inputs_in(call_inputs))
    peak, there = live.peak, _bytes([*module.parameters(), *constants, *_inputs_in(call_inputs)])
    trained = [x for x in module.parameters() if x.grad is not None]
    return StepMemory(
        weights=weights,
        buffers=buffers,
        inputs=inputs,
        gradients=_bytes(x.grad for x in trained),
        trained=[(tuple(x.shape), x.element_size()) for x in trained],
        kept=kept,
        peak=there + peak.bytes,
        end=there + peak.end,
        moment=peak.moment,
        path=peak.path,
    )


def _inputs_in(inputs: Any) -> list[torch.Tensor]:
    """The tensors among arguments, and in attributes of objects among these."""
    held = [vars(x) for x in tree_leaves(inputs) if "__dict__" in dir(x) and not torch.is_tensor(x)]
    return tensors_in((inputs, held))


def _bytes(tensors: Any) -> int:
    """Bytes of the storages of tensors, each once."""
    storages = {address(x): x.untyped_storage().nbytes() for x in stored_in(list(tensors))}
    return sum(storages.values())


@contextmanager
def as_asked(call: OwnCall) -> Iterator[None]:
    """Let the module train, or infer, within the block; afterwards all is as it was.

    That is its mode, its gradients, its buffers as far as a real run writes them, and torch's random state.
    """
    module = call.module
    modes = {child: child.training for child in module.modules()}
    weights = [*module.parameters(), *unregistered_tensors(module)]
    grads = {weight: weight.grad for weight in weights if weight.is_leaf}
    real = call.run_on != "meta"
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers() if real]
    fast = torch.backends.mha.get_fastpath_enabled()
    # the fast path is one fused operation without a formula: run its parts, which have formulas
    torch.backends.mha.set_fastpath_enabled(False)
    module.train(call.trains)
    for weight in grads:
        weight.grad = None
    try:
        with _flex_attention_uncompiled(), torch.random.fork_rng(devices=[]):
            yield
    finally:
        for child, mode in modes.items():
            child.training = mode
        for weight, grad in grads.items():
            weight.grad = grad
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def _flex_attention_uncompiled() -> Iterator[None]:
    """Keep flex_attention from compiling itself within the block: compiled calls cannot be watched."""
    flex: Any = sys.modules.get("torch.nn.attention.flex_attention")
    name = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"  # not in every version of torch
    if flex is None or name not in vars(flex):
        yield
        return
    before = vars(flex)[name]
    vars(flex)[name] = True
    try:
        yield
    finally:
        vars(flex)[name] = before
