"""Load a checkpoint into the built model, and compare its logits with those of transformers' class.

Both get the same tokens. They are loaded one after the other, so that no more than one is in memory.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from archcli.arith import prod
from archcli.errors import ArchError
from archcli.modules import Model
from archcli.modules.models.model import inferring
from archcli.modules.spec.forms import with_forms
from archcli.modules.spec.request import Medium, Request
from archcli.units import gib
from archcli.wings.running.runtime.dtypes import DTYPES, dtype_name
from archcli.wings.running.runtime.model.build import LanguageModel, build_model
from archcli.wings.running.runtime.model.random_data import random_input
from archcli.wings.running.runtime.verify.result import ReferenceResult
from archcli.wings.running.runtime.weights.inputs import Inputs
from archcli.wings.running.runtime.weights.transformers import (
    Logits,
    TransformersInput,
    prompt_length,
    transformers_class,
    transformers_logits,
)

if TYPE_CHECKING:
    from archcli.load.checkpoint.safetensors import TensorEntry
    from archcli.load.huggingface.weights.map import WeightMap, WeightTarget

Shapes = Mapping[str, tuple[int, ...]]


def pieces(tensor: torch.Tensor, place: WeightTarget, shapes: Shapes) -> Iterator[tuple[str, torch.Tensor]]:
    """(archcli name, tensor) of each part of a stored tensor; `shapes` are those of archcli's weights.

    Raises ValueError where the tensor does not have the shape that ours together need.
    """
    needed = place.stored_shape(shapes)
    if needed != tuple(tensor.shape):
        raise ValueError(f"{place.names[0]} needs a stored shape {needed}, not {tuple(tensor.shape)}")
    take, stacked = place.parts, place.nth is not None
    # such as LongCat-Flash's zero experts
    tensor = tensor[: len(tensor) - take.unread] if take.unread else tensor
    # axes of 1 in front; some files lack them
    tensor = tensor.flatten(0, min(take.flat, tensor.dim() - 1)) if take.flat else tensor
    for _ in range(take.tapped):
        tensor = tensor.squeeze(-1)
    tensor = tensor.flatten(1, 2) if take.frames else tensor
    tensor = tensor.reshape(1) if take.scalar else tensor
    tensor = tensor.unflatten(-1, (-1, take.blocks)).transpose(-1, -2).flatten(-2) if take.blocks else tensor
    tensor = tensor.flatten(-2) if take.heads else tensor
    tensor = tensor.flatten(-len(take.folded)) if take.folded else tensor
    # DBRX stacks its experts' matrices into one
    tensor = tensor.unflatten(0, (shapes[place.names[0]][0], -1)) if take.merged else tensor
    # GPT-2's Conv1D is [in, out]
    tensor = tensor.transpose(-1, -2) if take.transposed and tensor.dim() > 1 else tensor
    if len(place.names) == 1:
        yield place.names[0], tensor
        return
    sizes = [shapes[name][take.axis + stacked] // take.groups for name in place.names]
    # fused q, k, v: of head 0, then of head 1 (GPT-NeoX, BLOOM)
    grouped = tensor.unflatten(take.axis, (take.groups, -1))
    for name, piece in zip(place.names, grouped.split(sizes, dim=take.axis + 1), strict=True):
        yield name, piece.flatten(take.axis, take.axis + 1)


def translate(
    stored: Mapping[str, torch.Tensor], weights: WeightMap, shapes: Shapes
) -> dict[str, torch.Tensor]:
    """Translate a checkpoint to archcli's state dict, without tensors that are no weights (rotary tables).

    Raises KeyError for an unknown or repeated tensor.
    """
    parts: dict[str, dict[int | None, torch.Tensor]] = {}
    sliced: set[str] = set()
    for name, tensor in stored.items():
        place = weights.find(name)
        if place is None and weights.reason(name, tuple(tensor.shape)):
            continue
        if place is None:
            raise KeyError(f"{name} has no rule")
        for ours, piece in pieces(tensor, place, shapes):
            of_name = parts.setdefault(ours, {})
            if place.nth in of_name:
                raise KeyError(f"{ours} is written twice, the second time by {name}")
            of_name[place.nth] = piece
            sliced.update(place.names if place.parts.slices else ())
    return {
        name: stack[None] if None in stack else join([stack[i] for i in range(len(stack))])
        for name, stack in parts.items()
        for join in (torch.cat if name in sliced else torch.stack,)
    }


@torch.no_grad()
def fill(model: nn.Module, stored: Iterable[tuple[WeightTarget, torch.Tensor]]) -> None:
    """Copy stored tensors into the model's memory and dtype, one at a time."""
    tensors: dict[str, Any] = dict(model.named_parameters())
    tensors |= dict(model.named_buffers())
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for place, tensor in stored:
        for name, piece in pieces(tensor, place, shapes):
            place.member(tensors[name]).copy_(piece)


Tell = Callable[[str, int, int], Any]

STORED = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""safetensors' names of the dtypes that hold numbers as they are."""

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-5, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Of the largest logit. Two correct runs differ by rounding; half precision shows coarse mistakes alone."""

SEED = 20


class WeightCheck(NamedTuple):
    """A checkpoint to compare: folder, config.json, tensors by name, and how to run it.

    Dtype "keep" is that in which most numbers are stored. `media` are the images and sounds of the prompt.
    """

    folder: str
    config: Mapping[str, Any]
    stored: Mapping[str, TensorEntry]
    params: int
    dtype: str
    request: Request
    media: tuple[Medium, ...] = ()


class PlacedTensors(NamedTuple):
    """A checkpoint's tensors with their targets, and a function to read one's bytes."""

    tensors: tuple[tuple[TensorEntry, WeightTarget], ...]
    read: Callable[[TensorEntry], bytearray]


@dataclass(frozen=True, slots=True)
class Closeness(ReferenceResult):
    """The difference of two sets of logits, relative to transformers' largest logit."""

    difference: float = float("nan")
    tolerance: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the difference is within rounding; false for NaN."""
        return self.difference <= self.tolerance


@torch.inference_mode()
def check_weights(
    spec: Model, placed: PlacedTensors, job: WeightCheck, available: int | None, tell: Tell = lambda *_: None
) -> list[ReferenceResult]:
    """Run both models and compare their logits.

    Raises ArchError where memory, transformers or its class is missing.
    """
    dtype = DTYPES.get(job.dtype) or stored_dtype(placed)
    _require_memory(job.params, dtype, available)
    cls, inputs = transformers_class(job.config), _inputs(spec, job, dtype)
    tell(f"transformers' {cls.__name__}", 0, 2)
    theirs = transformers_logits(
        cls, TransformersInput(job.folder, job.config, memory_mapped(job.stored)), dtype, spec, inputs
    )
    # what cycles still hold of transformers' model must go before ours is loaded
    gc.collect()
    tell("archcli's model", 1, 2)
    ours = archcli_logits(loaded(with_forms(spec, job.request), placed, dtype), spec, inputs, job.request)
    seen = f" with {sized(job.media)}" if job.media else ""
    what = f"logits of one pass{seen}, {dtype_name(dtype)}"
    results = [_closeness(cls.__name__, what, ours.full, theirs.full, TOLERANCE[dtype])]
    if ours.steps is not None and theirs.steps is not None:
        what = f"logits of prefill{seen} and {ours.steps.shape[1] - 1} decoded, {dtype_name(dtype)}"
        results.append(_closeness(cls.__name__, what, ours.steps, theirs.steps, TOLERANCE[dtype]))
    return results


def stored_dtype(placed: PlacedTensors) -> torch.dtype:
    """The dtype in which most elements are stored; ArchError where it cannot be run."""
    elements: Counter[str] = Counter()
    for stored, _ in placed.tensors:
        elements[stored.dtype] += int(prod(stored.shape))
    dtype = STORED.get(elements.most_common(1)[0][0]) if elements else torch.float32
    if dtype not in TOLERANCE:
        raise ArchError(
            "the weights are not stored as numbers that run", "--dtype fp32 runs them all in single precision"
        )
    return dtype


def memory_mapped(stored: Mapping[str, TensorEntry]) -> dict[str, torch.Tensor]:
    """Every tensor by name, as pages of its file: none is read before it is used."""
    from safetensors import safe_open

    files = {path: safe_open(path, "pt") for path in {entry.path for entry in stored.values()}}
    return {name: files[entry.path].get_tensor(name) for name, entry in stored.items()}


def loaded(spec: Model, placed: PlacedTensors, dtype: torch.dtype) -> LanguageModel:
    """archcli's model with the stored weights, read tensor by tensor."""
    # step by step on both sides: a fused kernel sums in another order
    towers = any(
        place.names[0].startswith(tower.part) for tower in spec.towers for _, place in placed.tensors
    )
    built = build_model(inferring(spec), device="meta", dtype=dtype, attention="eager", towers=towers)
    model = built.to_empty(device="cpu")
    fill(model, ((place, _tensor(stored, placed.read)) for stored, place in placed.tensors))
    return model.eval()


def _tensor(stored: TensorEntry, read: Callable[[TensorEntry], bytearray]) -> torch.Tensor:
    if stored.dtype not in STORED:
        raise ArchError(
            f"{stored.path}: weights of {stored.dtype} are quantized", "give a checkpoint that is not"
        )
    # torch.frombuffer refuses an empty buffer
    data = read(stored)
    empty = torch.empty(stored.shape, dtype=STORED[stored.dtype])
    return torch.frombuffer(data, dtype=STORED[stored.dtype]).reshape(stored.shape) if data else empty


def _require_memory(params: int, dtype: torch.dtype, available: int | None) -> None:
    needed = params * dtype.itemsize
    if available is not None and needed > available:
        needs, has = f"this needs {gib(needed)} of weights", f"this machine has {gib(available)} available"
        what = f"{needs} in {dtype_name(dtype)}; {has}"
        raise ArchError(what, "params --against compares names and shapes without them")


def _inputs(spec: Model, job: WeightCheck, dtype: torch.dtype) -> Inputs:
    """Random inputs, at most `max_seq_len` tokens long."""
    seed = torch.Generator().manual_seed(SEED)
    length = min(job.request.seq_len, spec.max_seq_len or job.request.seq_len)
    specs = spec.inputs(Request("forward", job.request.batch_size, length))
    # the source is drawn first, as it always was: the same seed gives the same tensors
    source = (random_input(specs["source"], dtype, seed),) if "source" in specs else ()
    inputs = Inputs(random_input(specs["tokens"], dtype, seed), source)
    if not job.media:
        return inputs
    from archcli.wings.running.runtime.weights.media import prompt_with  # of models with towers alone

    return prompt_with(spec, inputs, job.media, dtype, seed)


def sized(media: Sequence[Medium]) -> str:
    """Media in words: image 448 x 448."""
    return ", ".join(f"{medium.kind} {' x '.join(map(str, medium.size))}" for medium in media)


def _closeness(
    witness: str, what: str, ours: torch.Tensor, theirs: torch.Tensor, tolerance: float
) -> ReferenceResult:
    if ours.numel() != theirs.numel():
        return ReferenceResult(
            f"transformers' {witness}", what, str(tuple(ours.shape)), str(tuple(theirs.shape))
        )
    theirs = theirs.float().reshape(ours.shape)
    difference = float((ours.float() - theirs).abs().max() / theirs.abs().max())
    return Closeness(
        f"transformers' {witness}",
        what,
        f"differ by {difference:.1e}",
        f"at most {tolerance:g}",
        difference=difference,
        tolerance=tolerance,
    )


def _sharing(model: LanguageModel, spec: Model) -> LanguageModel:
    """A model of the architecture `spec` with the weights of `model`, or `model` itself."""
    if model.spec == spec:
        return model
    dtype = next(model.parameters()).dtype
    towers = any(tower.part in model._modules for tower in spec.towers)
    built = build_model(spec, device="meta", dtype=dtype, attention="eager", towers=towers).eval()
    # assign: copying into tensors on meta would do nothing, and say so in a warning only
    built.load_state_dict(model.state_dict(), assign=True)
    return built


def archcli_logits(model: LanguageModel, spec: Model, inputs: Inputs, request: Request) -> Logits:
    """archcli's logits of one pass, and of a prompt with further tokens decoded through the cache.

    Tokens are decoded in the request's forms of decoding.
    """
    full = model(inputs.tokens, *inputs.source, media=inputs.media)
    prompt = prompt_length(spec, inputs.tokens)
    if prompt is None:
        return Logits(full, None)
    logits, cache = model.prefill(inputs.tokens[:, :prompt], *inputs.source, media=inputs.media)
    decoding = _sharing(model, with_forms(model.spec, replace(request, phase="decode")))
    steps = [logits]
    for i in range(prompt, inputs.tokens.shape[1]):
        logits, cache = decoding.decode(inputs.tokens[:, i : i + 1], cache)
        steps.append(logits)
    return Logits(full, torch.cat(steps, dim=1))
