"""count_kv_cache: `archcli kvcache` in Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from archcli.api.asking.options import (
    BatchSize,
    Context,
    Engine,
    KvDtype,
    MediaOptions,
    SourceLen,
    StateDtype,
    Tp,
    Utilization,
)
from archcli.api.asking.question import Option, asks
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError
from archcli.measure.kvcache.cache_size import check_cache
from archcli.measure.kvcache.engine import CacheHolder
from archcli.measure.kvcache.kvcache import count_kv_cache as count
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import MemorySize
from archcli.modules.stored.dtypes import CacheDtypeName
from archcli.plugins import optional, part

Memory = Annotated[
    MemorySize | None,
    Option("Memory for the cache: say how much fits. 80GiB, 24GB.", metavar="SIZE", reads="bytes"),
]
Device = Annotated[
    str | None,
    Option(
        "Of `archcli devices`, a YAML file, or local, in place of --memory.",
        metavar="[Nx]NAME",
        completes="devices",
    ),
]


CachedDtype = Annotated[
    CacheDtypeName,
    Option(
        "Type of an element of the cache, bf16, fp8, int4, or a format that engines keep it in: q8_0.",
        metavar="DTYPE",
        reads="text",
        completes="cache_dtypes",
    ),
]


USUAL = "bf16"


@dataclass(frozen=True)
class KvcacheOptions(MediaOptions):
    """Options of `archcli kvcache`."""

    model: ModelLike
    context: Context = None
    batch_size: BatchSize = 1
    dtype: CachedDtype = USUAL
    state_dtype: StateDtype = field(default=None, kw_only=True)
    source_len: SourceLen = None
    memory: Memory = field(default=None, kw_only=True)
    device: Device = field(default=None, kw_only=True)
    tp: Tp = field(default=1, kw_only=True)
    engine: Engine = field(default=None, kw_only=True)
    utilization: Utilization = field(default=None, kw_only=True)
    kv_dtype: KvDtype = field(default=None, kw_only=True)

    @property
    def cache_dtype(self) -> str:
        """The dtype of the cache, by either of two options."""
        if self.kv_dtype is not None and self.dtype not in {USUAL, self.kv_dtype}:
            what = f"--dtype {self.dtype} and --kv-dtype {self.kv_dtype} name one and the same"
            raise ArchError(what, "leave --dtype out: here it is of the cache, too")
        return self.kv_dtype or self.dtype


def cache_report(subject: Subject, options: KvcacheOptions) -> Report:
    """The report on a loaded model. Raises ArchError for devices that cannot share it as asked."""
    holder = _holder(subject.model, options)
    check_cache(subject.model, options.cache_dtype)
    report = count(
        holder.model or subject.model,
        options.context,
        options.batch_size,
        options.cache_dtype,
        holder.memory_bytes,
        options.source_len,
        options.state_dtype,
        plan=holder.plan,
        architecture=holder.architecture,
        engine=holder.engine,
        media=options.media,
    )
    return subject.named(report, options)


def _holder(model: Model, options: KvcacheOptions) -> CacheHolder:
    """The devices and the engine that hold the cache. Raises ArchError for devices that cannot share it."""
    of_devices = (options.device, options.memory, options.engine, options.utilization)
    if options.tp == 1 and not any(of_devices) and optional("serving.cache_holder") is None:
        return CacheHolder()
    holder: CacheHolder = part("serving.cache_holder")(model, options)
    return holder


@asks(KvcacheOptions)
def count_kv_cache(options: KvcacheOptions) -> Report:
    """The cache of an architecture, and with other kinds of attention: the report of `archcli kvcache`.

    Of `batch_size` sequences of `context` tokens each (left out: max_seq_len, else 2048). `totals` holds
    elements, bytes in `dtype`, and both per token; kv_elements grow with the tokens, state_elements do not;
    `rows` the same by kind of layer. Recurrent states are kept in `state_dtype` (left out: `dtype`). With
    `memory`, bytes or "80GiB", or a `device`, also how many tokens and sequences fit. With `tp`, and on
    several devices, all is of one rank of these; stages fit together what they hold. With images or sounds
    `context` is the text beside them (left out: 2048), and the cache has the tokens of both.

    Example: `count_kv_cache("llama-3.1-8b", 131_072).totals["bytes"]` is 17,179,869,184.
    """
    return cache_report(given(options.model), options)
