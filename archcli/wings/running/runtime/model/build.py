"""Build an architecture as a tree of nn.Module, with the names and shapes that are counted."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from archcli.arith import rounded_shape
from archcli.errors import ArchError, Problem
from archcli.graph import Op, Tensor, tree_map
from archcli.modules import Model, Module
from archcli.modules.adapters.adapted import unadapted
from archcli.modules.adapters.dora import MAGNITUDE
from archcli.modules.spec.request import InputSpec, Phase, Request
from archcli.units import gib
from archcli.wings.running.runtime.dtypes import default_dtype
from archcli.wings.running.runtime.model.leaves import AdapterHolder, Assignment, StackedLinear, leaf_of
from archcli.wings.running.runtime.model.node import EAGER, FUSED, ModuleNode, NodeTape
from archcli.wings.serving.recorded.machine import available_memory


class MismatchError(ArchError):
    """torch's output shape differs from the op's: the row, the expected shape, the actual one."""

    def __init__(self, path: str, what: str, ours: str, theirs: str) -> None:
        super().__init__(Problem(f"{what}: archcli says {ours}, torch says {theirs}", path=path))
        self.path, self.what, self.ours, self.theirs = path, what, ours, theirs


class BuildTape(NodeTape):
    """Makes a leaf for each op that owns weights, and a child node for each module.

    The real output of an op has the shape that the op promises: a row that is counted is the row that runs.
    """

    __slots__ = ("first", "is_own", "n_experts", "path")

    def __init__(
        self,
        node: ModuleNode,
        path: str,
        n_experts: int | None,
        first: dict[str, ModuleNode] | None = None,
        *,
        is_own: bool = False,
    ) -> None:
        super().__init__(node)
        self.path, self.n_experts, self.is_own = path, n_experts, is_own
        # by key: the first node, whose weights later nodes share
        self.first = {} if first is None else first

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Register the op's leaf, run it, compare shapes."""
        shapes, path = [x.shape for x in xs], self._below(op.name)
        try:
            self._register(op, shapes, trained=trained)
            out = super().emit(op, *xs)
        except (RuntimeError, ValueError, ArithmeticError) as problem:
            reason = str(problem).splitlines()[0]
            raise MismatchError(path, f"{type(op).__name__} runs", "yes", reason) from problem
        promised, real = rounded_shape(op.shape(*shapes)), tree_map(lambda x: x.shape, Tensor, out)
        # the size of some outputs depends on values, as tokens of an expert: counted as expected on average
        on_data = op.expected and not xs[0].value.is_meta
        if promised != real and not on_data:
            raise MismatchError(path, f"shape of {type(op).__name__}", str(promised), str(real))
        return out

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """Register the leaf if nothing has called it yet."""
        if self.node.part(op.name) is None:
            self._register(op, [x.shape for x in xs], trained=trained)
        return super().weight(op, *xs, which=which)

    def declaring(self) -> NodeTape | None:
        """The same tape: it makes the leaves of what it runs."""
        return self

    def unshared(self) -> BuildTape:
        """A tape that makes leaves in this node, even if its other leaves are lent by another node."""
        return BuildTape(self.node, self.path, self.n_experts, self.first, is_own=True)

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Build the child node and everything in it by running its forward."""
        experts = options.get("experts")
        n_experts = self.n_experts if experts is None else experts.n_experts
        *parents, last = name.split(".")
        place: Any = self.node
        for step in parents:
            if not hasattr(place, step):
                place.add_module(step, nn.ModuleList())
            place = getattr(place, step)
        key = options.get("shares")
        child = ModuleNode(
            module, self.node.form, None if experts is None else n_experts, self._lender(name, key)
        )
        if key is not None:
            # after _lender: the first child of a key must not find itself as its lender
            self.first.setdefault(key, child)
        place.add_module(last, child)
        tape = BuildTape(child, self._below(name), n_experts, self.first)
        # not child(...): its own tape would find no leaves yet
        out = module.forward(*tree_map(lambda x: Tensor(tape, x.value), Tensor, args))
        return tree_map(lambda x: Tensor(self, x.value), Tensor, out)

    def _lender(self, name: str, key: str | None) -> ModuleNode | None:
        """The node whose weights a child uses: the first of its key, or that of its parent's lender."""
        if key is not None and key in self.first:
            return self.first[key]
        above = self.node.lender
        return None if above is None else above.child(name)

    def _run(self, op: Op, values: list[Any]) -> Any:
        if self.n_experts is not None and values:
            # on meta every assignment has the same shapes: all tokens go to expert 0
            self.routed = Assignment(values[0].new_zeros(len(values[0]), dtype=torch.int64))
        return super()._run(op, values)

    def _below(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _register(self, op: Op, shapes: list[Any], *, trained: bool) -> None:
        """Register the op's leaf in the node, or below the leaf that it adapts (`q_proj.lora_A`)."""
        lent = self.node.lender is not None and not self.is_own
        leaf = None if lent else leaf_of(op, shapes, self.n_experts)
        if leaf is None:
            return
        *parents, last = op.name.split(".")
        place: nn.Module = self.node
        for step in parents:
            if step not in place._modules:
                place.add_module(step, AdapterHolder())
            place = place.get_submodule(step)
        place.add_module(last, leaf if trained else leaf.requires_grad_(False))


class Cache(NamedTuple):
    """The cache of all layers after `length` tokens; owned by the caller, replaced at every step.

    layers: the states.
    moved: length - next position: with rotary positions by rows and columns an image takes fewer positions
    than tokens.
    """

    length: int = 0
    layers: tuple[Any, ...] = ()
    moved: int = 0

    def tensors(self) -> list[torch.Tensor]:
        """The states of all layers."""
        return [leaf for leaf in tree_leaves(self.layers) if isinstance(leaf, torch.Tensor)]


Media: TypeAlias = Any
"""Images and sounds of a prompt: tensors, or pairs of a `Medium` and a tensor."""


class LanguageModel(ModuleNode):
    """A model: `model(tokens)` gives logits, or hidden states without a head.

    An encoder-decoder is called as `model(tokens, source)`. `model(tokens, targets=ids)` gives the loss of a
    model that predicts tokens: the cross entropy, unless it states another. `prefill` and `decode` run
    through a cache that the caller owns. An encoder has none; one with a head and a classifier gives a pair.
    """

    spec: Model

    def forward(
        self,
        tokens: torch.Tensor,
        source: torch.Tensor | None = None,
        *,
        positions: torch.Tensor | None = None,
        targets: torch.Tensor | None = None,
        media: Media = (),
    ) -> torch.Tensor:
        """Logits [B, T, V] of token ids [B, T], which start at position 0 unless positions [T] are given.

        With targets [B, T], each token's successor, the loss. `media` are the images and sounds of the
        prompt: the tensor that its tower reads, or a pair of a `Medium` and its pieces. Raises ArchError for
        too few tokens, and for others than the media have.
        """
        if targets is not None:
            self.spec.require_tokens(tokens.shape[1])
        answer: torch.Tensor = super().forward(
            **_present(tokens=tokens, source=source, positions=positions, targets=targets),
            **self._media(tokens, media),
        )[0]
        return answer

    def step(
        self,
        tokens: torch.Tensor,
        cache: Cache,
        source: torch.Tensor | None = None,
        *,
        last_only: bool = False,
        media: Media = (),
    ) -> tuple[torch.Tensor, Cache]:
        """Logits of new tokens [B, T] after those in the cache, and the extended cache.

        Raises ArchError for an encoder, which caches nothing.
        """
        if not unadapted(self.spec).caches:
            raise ArchError(
                "an encoder has no cache to fill and generates nothing",
                "call the model on all tokens at once",
            )
        end = cache.length + tokens.shape[1]
        positions = torch.arange(cache.length - cache.moved, end - cache.moved, device=tokens.device)
        read = self._media(tokens, media)
        if read and cache.length:
            raise ArchError("images and sounds stand in the prompt alone", "prefill with them")
        logits, layers = super().forward(
            **_present(tokens=tokens, source=source, positions=positions),
            **read,
            cache=cache.layers,
            last_only=last_only,
        )
        return logits, Cache(end, layers, self._moved(read["media"]) if read else cache.moved)

    def prefill(
        self, tokens: torch.Tensor, source: torch.Tensor | None = None, *, media: Media = ()
    ) -> tuple[torch.Tensor, Cache]:
        """Logits [B, 1, V] of a prompt's last token, and its cache. Reads the source, if there is one."""
        return self.step(tokens, Cache(), source, last_only=True, media=media)

    def decode(self, token: torch.Tensor, cache: Cache) -> tuple[torch.Tensor, Cache]:
        """Logits [B, 1, V] of one more token [B, 1], and the longer cache."""
        return self.step(token, cache)

    def _moved(self, media: Media) -> int:
        """Tokens minus positions of these media."""
        from archcli.wings.running.runtime.model.media import fewer_positions  # of models with towers alone

        return fewer_positions(self.spec, media)

    def _media(self, tokens: torch.Tensor, media: Media) -> dict[str, Any]:
        """The argument `media` of the architecture's forward, if there are any."""
        if not media:
            return {}
        from archcli.wings.running.runtime.model.media import given_media  # of models with towers alone

        return {"media": given_media(self, tokens, media)}


def build_model(
    spec: Model,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    attention: str = "sdpa",
    towers: bool = False,
    read: Request | None = None,
) -> LanguageModel:
    """The model with fresh random weights; with `towers`, those that read its images and sounds as well.

    `read` is a pass of a tower by itself, whose projector may know of how many pieces an image is.

    `attention` is "sdpa" (torch's fused kernel where it can express the layer) or "eager".

    Device "meta" allocates nothing.
    """
    whole = spec.adapted
    model = LanguageModel(whole, EAGER if attention == "eager" else FUSED)
    # no_grad: this forward only creates the leaves
    with default_dtype(dtype), torch.device("meta"), torch.no_grad():
        tape = BuildTape(model, "", None)
        # training runs the layers of multi-token prediction, which no other pass does
        phase: Phase = "train" if spec.mtp_depth else "forward"
        length, media = 2 + spec.mtp_depth, {}
        if towers and spec.towers:
            from archcli.wings.running.runtime.model.media import (  # of models with towers alone
                empty_media,
                tokens_below,
            )

            media = {"media": empty_media(spec)}
            length = max(length, tokens_below(spec))
        inputs = empty_inputs(spec, read or Request(phase, 1, length)) | media
        whole.forward(**tree_map(lambda value: Tensor(tape, value), torch.Tensor, inputs))
    return model if device == "meta" else _materialized(model, device)


def empty_inputs(spec: Model, request: Request) -> dict[str, Any]:
    """Uninitialised input tensors of a pass, and its media, by the names of the model's arguments."""
    dtypes = {"ids": torch.int64, "features": None}
    read: dict[str, Any] = tree_map(
        lambda read: torch.empty(read.shape, dtype=dtypes[read.kind]), InputSpec, spec.reads(request)
    )
    return read


def example_inputs(
    spec: Model, batch_size: int, seq_len: int, source_len: int | None = None
) -> list[torch.Tensor]:
    """The inputs of a forward in the order of its arguments: ids [B, T], then the source if there is one."""
    return list(empty_inputs(spec, Request("forward", batch_size, seq_len, source_len=source_len)).values())


def _present(**inputs: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """The inputs without those that are None."""
    return {name: value for name, value in inputs.items() if value is not None}


def _materialized(model: LanguageModel, device: str) -> LanguageModel:
    """Allocate and initialise the weights on the device; ArchError if the CPU lacks memory."""
    # Linux promises more memory than it has and kills the process later; a GPU refuses at once
    if torch.device(device).type == "cpu":
        _require_memory(model)
    model.to_empty(device=device)
    leaves: list[Any] = [*model.modules()]
    for leaf in leaves:
        # to_empty leaves weights uninitialised; nodes and containers own none
        if hasattr(leaf, "reset_parameters"):
            leaf.reset_parameters()
    for leaf in leaves:
        if MAGNITUDE in leaf._modules:  # which starts from the frozen matrix
            leaf.lora_magnitude_vector.weight.data.copy_(leaf.weight.norm(dim=1))
    return model


def _require_memory(model: LanguageModel) -> None:
    """Raise ArchError where the weights are larger than the memory that is free."""
    needed = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    available = available_memory()
    if available is not None and needed > available:
        raise ArchError(
            f"{gib(needed)} of weights; this machine has {gib(available)} available",
            'a smaller dtype or fewer n_layers; device "meta" allocates nothing',
        )


def set_expert_form(model: nn.Module, form: str) -> None:
    """Make every stack of experts in the model run as "grouped", "grouped_on_meta" or "gather"."""
    for module in model.modules():
        if isinstance(module, StackedLinear):
            module.form = form


def store_experts(model: nn.Module, distinct: int) -> None:
    """Let each mixture's experts share `distinct` matrices, to save memory. Called on the meta device."""
    for module in model.modules():
        if isinstance(module, StackedLinear):
            module.store(distinct)
