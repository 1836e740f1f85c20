"""Inputs of a user's own module: tensors, or texts such as `ids=int64[1,2048]`.

filled(OwnCall(module, kwargs={"ids": "int64[1,8]"}))     # with a tensor in place of the text
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map_only

from archcli.errors import ArchError, quote, sanitize
from archcli.wings.running.runtime.dtypes import DTYPES
from archcli.wings.running.runtime.own.run import OwnCall, form_text, usual_dtype
from archcli.wings.running.runtime.own.stand_ins import MOST_ELEMENTS

FORM = re.compile(r"(?:([^\W\d]\w*)=)?([a-z]+\d*\w*)?\[(\d+(?:,\d+)*)?\]")

WHOLE = {torch.bool, torch.int8, torch.int16, torch.int32, torch.int64}
WHOLE |= {torch.uint8, torch.uint16, torch.uint32, torch.uint64}
MOST_BYTES = 2**63


class InputForm(NamedTuple):
    """The name (empty: positional), dtype and shape of an input, by `--input`."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


def input_form(text: str, usual: str = "int64") -> InputForm:
    """Parse a text such as `ids=int64[1,2048]`, or `[1,2048]` with the `usual` dtype.

    Raises ArchError for any other text.
    """
    match = FORM.fullmatch(text.replace(" ", ""))
    if match is None:
        several = len(re.findall(r"\]", text)) > 1
        hint = "give --input once for each" if several else "'ids=int64[1,2048]' is one: name, dtype, sizes"
        raise ArchError(f"--input {quote(text)} is no input", hint)
    name, dtype, sizes = match.groups()
    dtype = dtype or usual
    known = DTYPES.get(dtype) or vars(torch).get(dtype)
    if not isinstance(known, torch.dtype) or not _is_usable(known):
        raise ArchError(f"{quote(dtype)} is no dtype of torch", "int64, bool, float32 and bf16 are some")
    shape = tuple(int(size) for size in sizes.split(",")) if sizes else ()
    if prod(shape) * known.itemsize >= MOST_BYTES:
        raise ArchError(f"--input {quote(text)} is larger than any tensor", "give smaller sizes")
    return InputForm(name or "", known, shape)


def _is_usable(dtype: torch.dtype) -> bool:
    """Whether torch computes with a dtype; int4 and quint8 are mere names."""
    return dtype.is_floating_point or dtype.is_complex or dtype in WHOLE


def filled(call: OwnCall) -> OwnCall:
    """The call with tensors in place of texts; a call without inputs gets the module's dummy inputs.

    A text with brackets means a tensor, as `--input` has it; with a name, a keyword argument. Other texts
    stay: a module may take `reduction="mean"`.
    """
    module: Any = call.module
    # models of transformers have dummy_inputs
    dummies = module.dummy_inputs if hasattr(module, "dummy_inputs") else None
    if not call.args and not call.kwargs:
        return replace(call, kwargs=dict(dummies)) if isinstance(dummies, Mapping) else call
    args: list[Any] = []
    kwargs = {name: _tensor_of_text(value, call)[1] for name, value in call.kwargs.items()}
    for name, value in (_tensor_of_text(value, call) for value in call.args):
        if not name:
            args.append(value)
        elif name in kwargs:
            raise ArchError(f"the input {quote(name)} is given twice", "give it once")
        else:
            kwargs[name] = value
    return replace(call, args=tuple(args), kwargs=kwargs)


def _tensor_of_text(value: Any, call: OwnCall) -> tuple[str, Any]:
    """(name, tensor) of a text such as `ids=int64[1,8]`; ("", value) of anything else."""
    if type(value) is not str or "[" not in value:
        return "", value
    form = input_form(value, usual_dtype(call.module))
    return form.name, _tensor(form, call.run_on)


def moved(call: OwnCall) -> OwnCall:
    """The call with module and inputs on the device that it runs on."""
    args, kwargs = tree_map_only(torch.Tensor, lambda x: x.to(call.run_on), (call.args, dict(call.kwargs)))
    return replace(call, module=call.module.to(call.run_on), args=args, kwargs=kwargs)


def _tensor(form: InputForm, run_on: str) -> torch.Tensor:
    """A tensor of zeros (ids), ones (a bool mask) or noise (features); on meta if values are not needed."""
    noise = form.dtype.is_floating_point or form.dtype.is_complex
    device = "cpu" if run_on == "meta" else run_on
    if run_on == "meta" and (noise or prod(form.shape) > MOST_ELEMENTS):
        device = "meta"
    try:
        if form.dtype is torch.bool:
            return torch.ones(form.shape, dtype=form.dtype, device=device)
        if noise and run_on != "meta":
            seeded = torch.Generator(device).manual_seed(0)
            return torch.randn(form.shape, device=device, generator=seeded).to(form.dtype)
        return torch.zeros(form.shape, dtype=form.dtype, device=device)
    except (RuntimeError, TypeError) as error:  # too large, or of a dtype that torch has in name alone
        first = sanitize(str(error).splitlines()[0])
        what = f"no tensor {form_text(form.dtype, form.shape)} can be made: {first}"
        raise ArchError(what, "give smaller sizes, or another dtype") from None
