"""The devices and the engine of `archcli kvcache`."""

from __future__ import annotations

from archcli.api.kvcache import KvcacheOptions
from archcli.errors import ArchError
from archcli.measure.kvcache.engine import CacheHolder, InferenceEngine
from archcli.modules import Model
from archcli.wings.serving.api.engine import as_converted, chosen_engine, share_of
from archcli.wings.serving.api.known_device.known import device_memory
from archcli.wings.serving.memory.plan import DeviceMemory, Plan
from archcli.wings.serving.memory.settings import MemorySettings


def cache_holder(model: Model, options: KvcacheOptions) -> CacheHolder:
    """The devices and engine that hold a model's cache. Raises ArchError for an impossible split."""
    chosen = device_memory(options.device, options.memory)
    # the default engine depends on the published weights; a named engine takes the model as it is
    stored = model.as_published() if options.engine is None else model
    engine = chosen_engine(options.engine, stored, "decode", chosen)
    plan = _plan(model, options.tp, chosen, engine)
    taken = share_of(chosen, engine, options.utilization)
    if taken is None:
        return CacheHolder(plan=plan, engine=engine)
    return CacheHolder(taken.memory_bytes, taken.architecture, plan, engine, as_converted(model, engine.name))


def _plan(model: Model, tp: int, device: DeviceMemory | None, engine: InferenceEngine) -> Plan:
    """The plan of `tp` devices; of several named ones the usual plan of `memory` and `predict`."""
    # one named device stands for each of the tp that share the cache
    if device is None or device.n_devices in {1, tp}:
        return Plan(tp=tp)
    if tp > 1:
        what = f"--device names {device.n_devices:,} devices, and --tp {tp} shares the model among {tp:,}"
        raise ArchError(what, f"--device {tp}x{device.name}, or leave --tp out")
    from archcli.wings.serving.memory.answers.fit import UsualPlans  # of several devices alone
    from archcli.wings.serving.memory.answers.question import MemoryQuestion

    question = MemoryQuestion(model, MemorySettings("decode", engine=engine), device=device)
    return UsualPlans(question, device.per_node).of(device.n_devices)[0]
