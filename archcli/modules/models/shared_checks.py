"""Checks of the blocks that layers of a stack share, and of the layers that use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.errors import quote, suggest
from archcli.modules.adapters.shared_block import NARROW
from archcli.modules.attention.mixer import READS_LAYER
from archcli.modules.blocks.block import Block
from archcli.modules.models.layers import stated_layers
from archcli.modules.models.stack import Stack, stacks
from archcli.modules.spec.base import Conflict, Spec
from archcli.modules.spec.trace import outline


def check_shared(model: Spec) -> Iterator[Conflict]:
    """Conflicts of shared blocks with the layers that use them, by what both state."""
    for prefix, stack in stacks(model):
        layers = list(stack.layers()) if stack.shares_blocks else []
        for name, block in stack.shared.items():
            at = f"{prefix}shared.{name}"
            yield from _check_block(name, block, at)
            if all(layer.used != name for _, layer in layers):
                what = f"no layer uses the shared block {name}"
                yield Conflict("shared-unused", at, what, f"write use: {name}, or leave it out")
        for place, layer in layers:
            tied = stack.groups[int(place.split(".")[1])].tie
            yield from (it.below(f"{prefix}{place}") for it in _check_layer(layer, stack, tied=tied))


def check_adapters(model: Any) -> Iterator[Conflict]:
    """Conflicts: adapters at projections that their shared block lacks, found by a trace."""
    adapting = [layer for layer in stated_layers(model) if getattr(layer.block, "adapter_rank", None)]
    rows = outline(model) if adapting else ()
    for layer in adapting:
        names = [row.op.name for row in rows if row.path.startswith(f"{layer.path}.")]
        known = {name.removesuffix(f"_proj.{NARROW}") for name in names if name.endswith(NARROW)}
        for i, target in enumerate(getattr(layer.block, "adapter_targets", ())):
            if target not in known:
                path = f"{layer.yaml_path}.adapter_targets.{i}"
                what = f"the shared block has no projection {target}"
                yield Conflict("adapter-target-unknown", path, what, "leave it out")


def _check_block(name: str, block: Block, at: str) -> Iterator[Conflict]:
    """Conflicts of a shared block with its name, and with running in several layers."""
    if not name.isidentifier():
        yield Conflict("shared-name", at, f"{name!r} is no plain name", "write letters")
    if block.used is not None:
        yield Conflict("shared-nested", at, "a shared block states its parts itself", "leave use out")
    mixers = () if block.mixing is None else block.mixing[1].members("")
    members = [mixer for _, mixer in mixers]
    for field in sorted(READS_LAYER):
        if all(getattr(member, field, None) is None for member in members):
            continue
        what = "a shared block runs in several layers, and reads nothing of one of them"
        yield Conflict("shared-from-layer", at, what, f"leave {field} out")


def _check_layer(layer: Block, stack: Stack, *, tied: bool) -> Iterator[Conflict]:
    """Conflicts of a layer with its shared block, and of blocks that cannot be a layer."""
    if layer.reads_embedding:
        what = "a concat block returns no stream: it stands under shared, and a layer uses it"
        yield Conflict("concat-not-shared", "kind", what, "move it to shared")
    block = stack.shared.get(layer.used or "")
    if layer.used is not None and block is None:
        what, hint = f"no shared block is called {quote(layer.used)}", "it has"
        yield Conflict("shared-unknown", "use", what, suggest(layer.used, stack.shared, hint))
    if getattr(layer, "project", False) and block is not None and not block.reads_embedding:
        what = "project is of what a concat block returns, and this block returns the stream"
        yield Conflict("shared-project", "project", what, "leave project out")
    if getattr(layer, "adapter_rank", None) is not None and tied:
        what = "layers that are tied share their adapters too"
        yield Conflict("adapters-tied", "adapter_rank", what, "leave adapter_rank or tie out")
