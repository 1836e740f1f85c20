"""Make inputs for the forward of a class of transformers, from the sizes in its config.

with_inputs(model, "meta", run)    # run({"input_ids": int64[1,2048]}), or the first set of inputs that runs
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Any, TypeVar

import torch
from torch import nn

from archcli.errors import ArchError
from archcli.wings.running.runtime.classes.makers import OF_MEDIA, OF_TEXT, maker_of
from archcli.wings.running.runtime.classes.model import seeded
from archcli.wings.running.runtime.classes.sizes import ConfigSizes
from archcli.wings.running.runtime.own.failures import RunError, raised, their_frames
from archcli.wings.running.runtime.own.stand_ins import ON_CPU

Inputs = dict[str, Any]
Answer = TypeVar("Answer")
MOST_RUNS, MOST_TRIALS, MOST_SHAPES = 16, 300, 48
"""The most watched runs, passes on meta, and shapes tried for one set of names."""
MOST_SMALL = 8
"""Elements from which on the values of a tensor are not compared."""
UNALLOCATED = "data is not allocated yet"
"""Part of torch's error for `torch.tensor` of a list of fake numbers."""
OF_META = ("meta", "fake", "device", "bf16", "bfloat16", "not allocated")
"""Words of errors that meta tensors raise and real ones may not."""


def with_inputs(model: nn.Module, device: str, ask: Callable[[Inputs], Answer]) -> Answer:
    """The answer for the first inputs that a model's forward accepts.

    An error helps to find the next inputs: parameters of forward that are named in its message or in the line
    that raised it, and the input width of the layer that raised it. Raises ArchError with the parameters of
    forward if no inputs work, and RunError at once if fake tensors cannot.
    """
    search = Search(model, device)
    runs = 0
    for inputs in search.candidates():
        if runs and device == "meta" and (error := _fails_on_meta(model, inputs)):
            search.fails(inputs, error)
            continue
        try:
            with seeded():
                return _answer(model, ask, {name: _on(device, it) for name, it in inputs.items()})
        except RunError as error:
            if error.needs_values:
                raise
            search.fails(inputs, error)
        runs += 1
        if runs == MOST_RUNS:
            break
    raise search.error()


def _answer(model: nn.Module, ask: Callable[[Inputs], Answer], inputs: Inputs) -> Answer:
    """The answer; with use_cache=False if fake tensors cannot fill a cache. Raises RunError."""
    try:
        return ask(inputs)
    except RunError as error:
        if UNALLOCATED in error.text:
            raise _of_values(error) from None
        takes = inspect.signature(model.forward).parameters
        if not error.needs_values or "use_cache" not in takes:
            raise
        failure = error
    try:
        return ask({**inputs, "use_cache": False})
    except RunError:
        raise failure from None


def _of_values(error: RunError) -> RunError:
    """The same error, with the hint that real tensors may work."""
    failed = RunError([replace(problem, hint=ON_CPU) for problem in error.problems])
    failed.text, failed.needs_values = error.text, True
    return failed


def _fails_on_meta(model: nn.Module, inputs: Inputs) -> Exception | None:
    """The error of a pass on meta tensors; None if there is none, or meta may be the cause.

    Such a pass takes a hundredth of a watched run. Integers keep their values in a second try: a pass may
    read the sizes of grids.
    """
    failure = None
    for keeps_values in (False, True):
        failure = _failure(
            model,
            {
                name: tensor if keeps_values and not tensor.is_floating_point() else tensor.to("meta")
                for name, tensor in inputs.items()
            },
        )
        if not isinstance(failure, NotImplementedError):
            text = str(failure).lower()
            if failure is None or not any(word in text for word in OF_META):
                return failure
    return None


def _failure(model: nn.Module, inputs: Inputs) -> Exception | None:
    """The exception of a pass, or None."""
    try:
        with torch.no_grad():
            model(**inputs)
    except Exception as error:  # noqa: BLE001 - their code may raise anything
        return error
    return None


def _on(device: str, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the device; with random values if it has none."""
    if device == "meta":
        return tensor
    return torch.rand(tensor.shape, device=device) if tensor.is_meta else tensor.to(device)


class Search:
    """Sets of inputs to try, changed by the errors of failed runs."""

    def __init__(self, model: nn.Module, device: str) -> None:
        self.model, self.sizes = model, ConfigSizes(model, device)
        self.parameters = inspect.signature(model.forward).parameters
        self.first: Exception | None = None
        needed = _needed(model, self.parameters)
        more = tuple(name for name in (*OF_TEXT, *OF_MEDIA) if name in self.parameters and name not in needed)
        self.sets = [needed, *((*needed, name) for name in more), (*needed, *more)]

    def candidates(self) -> Iterator[Inputs]:
        """Inputs by name, each set once; a call of `fails` in between changes the next ones."""
        tried: set[Any] = set()
        while self.sets:
            names = self.sets.pop(0)
            makers = [maker_of(name) for name in names]
            if not names or None in makers or len(tried) >= MOST_TRIALS:
                continue
            # inputs of one kind get the same tensor: the pixels of an image and of its prompt
            kinds = {make: [*make(self.sizes)] for make in makers if make}
            for tensors in islice(product(*kinds.values()), MOST_SHAPES):
                tensor_of = dict(zip(kinds, tensors, strict=True))
                inputs = {name: tensor_of[make] for name, make in zip(names, makers, strict=True) if make}
                form = tuple((name, it.shape, it.dtype, *_small(it)) for name, it in inputs.items())
                if form in tried:
                    continue
                tried.add(form)
                waiting = len(self.sets)
                yield inputs
                # the error led to better sets: the rest of this set comes after them
                if len(self.sets) > waiting:
                    self.sets.insert(len(self.sets) - waiting, names)
                    break

    def fails(self, inputs: Inputs, error: Exception) -> None:
        """Keep an error; put the inputs that it names first, and the sizes that it asks for."""
        self.first = self.first or error
        cause = error.__context__ if isinstance(error, RunError) else error
        text = error.text if isinstance(error, RunError) else f"{error} {_line(error)}"
        in_message = set(re.findall(r"\w+", text.lower()))
        takes = [name for name in self.parameters if name not in inputs and maker_of(name)]
        lacking = [name for name in takes if name in in_message]
        named = [(*inputs, name) for name in lacking]
        self.sets[:0] = [*named, (*inputs, *lacking)] if len(lacking) > 1 else named
        if cause and self.sizes.learn(cause):
            self.sets.insert(0, tuple(inputs))

    def error(self) -> ArchError:
        """The error for a forward for which no inputs were found."""
        name = type(self.model).__name__
        if type(self.model).forward is nn.Module.forward:
            return ArchError(f"{name} has no forward", "params counts it; its parts may have classes")
        takes = ", ".join(self.parameters)
        hint = f"it takes {takes}: state them as --input 'input_ids=int64[1,8]' does"
        what = f"no inputs are known for the forward of {name}"
        if self.first is None:
            return ArchError(what, hint)
        first = self.first if isinstance(self.first, ArchError) else raised("it", self.first)
        return ArchError(f"{what}: {first.problems[0].what}", hint)


def _needed(model: nn.Module, parameters: Any) -> tuple[str, ...]:
    """The parameters that a forward requires, else the model's main input."""
    needed = tuple(
        name
        for name, it in parameters.items()
        if it.default is it.empty and it.kind not in {it.VAR_KEYWORD, it.VAR_POSITIONAL}
    )
    main = getattr(model, "main_input_name", None)
    return (main,) if not needed and isinstance(main, str) and main in parameters else needed


def _small(tensor: torch.Tensor) -> Any:
    """The values of a small tensor, as shapes may depend on them."""
    return tensor.flatten().tolist() if not tensor.is_meta and tensor.numel() < MOST_SMALL else ()


def _line(error: Exception) -> str:
    """The source line of the model's code that raised an error."""
    frames = their_frames(error)
    return (frames[-1].line or "") if frames else ""
