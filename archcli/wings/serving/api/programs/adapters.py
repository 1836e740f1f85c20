"""Several LoRA adapters that an engine has loaded, and that sequences of a batch use: `--adapters`.

S-LoRA, arXiv:2311.03285; Punica, arXiv:2310.18547.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from archcli.errors import ArchError
from archcli.measure.kvcache.engine import CACHING, NO_ENGINE, InferenceEngine
from archcli.modules import Model
from archcli.modules.adapters.lora import EVERY, LoRA
from archcli.wings.serving.launches.memory.trainer import USUAL_LORA
from archcli.wings.serving.memory.reserved.reserves import reserves_of
from archcli.wings.serving.memory.settings import MemorySettings

PACKED = (("q", "k", "v"), ("gate", "up"))
"""Projections that engines have in one matrix, and so in one slot."""


def with_adapters(
    model: Model, settings: MemorySettings, adapters: int | None
) -> tuple[Model, MemorySettings]:
    """The model with an adapter that fills a slot, and the settings with so many in the engine.

    Raises ArchError for a phase that serves nothing, and for adapters that a batch cannot share.
    """
    if adapters is None:
        return model, settings
    if settings.phase not in CACHING:
        what = f"--adapters serves several at once, and the phase is {settings.phase}, which runs one"
        raise ArchError(what, "--phase serve, or --set lora.rank=16 in its place")
    engine, lora = replace(settings.engine or NO_ENGINE, adapters=adapters), model.lora or USUAL_LORA
    if lora.saved:
        what = "lora.saved has copies of whole weights, which adapters that share a batch do not have"
        raise ArchError(what, "leave lora.saved out")
    return model.replace(lora=_slot(lora, engine)), replace(settings, engine=engine)


def _slot(lora: LoRA, engine: InferenceEngine) -> LoRA:
    """An adapter as large as a slot; itself of an engine whose slots are not known."""
    slots = reserves_of(engine)
    if not slots.adapter_slots:
        return lora
    rank = max((lora.rank, *(rule.rank for rule in lora.rules)))
    held = next((size for size in slots.adapter_ranks or (rank,) if size >= rank), None)
    if held is None:
        hint = f"--set lora.rank={slots.adapter_ranks[-1]} at most"
        raise ArchError(f"{engine.title} has no slots for adapters of rank {rank}", hint)
    named = {target.rpartition(".")[2] for target in lora.targets}
    packed = [name for group in PACKED if named & {*group} for name in group]
    targets = (EVERY, *lora.targets) if slots.adapter_slots == EVERY else (*lora.targets, *packed)
    return lora.replace(rank=held, targets=tuple(dict.fromkeys(targets)), rules=())


def adapter_notes(model: Model, engine: InferenceEngine) -> Iterator[str]:
    """What is loaded, and how its bytes are known."""
    if engine.adapters and model.lora is not None:
        what = f"Adapters: {engine.adapters:,} of rank {model.lora.rank} on {', '.join(model.lora.targets)}"
        how = f"as files hold them; how {engine.title} keeps several was not read"
        if reserves_of(engine).adapter_slots:
            how = f"the slots of {engine.title}, whatever is in them (`archcli engines {engine.name}`)"
        yield f"{what}, {how}."
