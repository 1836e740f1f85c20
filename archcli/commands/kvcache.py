"""`archcli kvcache`: the size of an architecture's KV cache."""

from __future__ import annotations

from typing import Annotated

import typer

from archcli.api.device import device_memory
from archcli.api.subject import subject
from archcli.commands.line import completion
from archcli.commands.line.options import (
    BatchSize,
    Context,
    Dtype,
    Form,
    Json,
    Memory,
    Model,
    Output,
    Set,
    SourceLen,
    StateDtype,
)
from archcli.commands.line.plan_options import Tp
from archcli.errors import ArchError
from archcli.measure.kvcache.kvcache import count_kv_cache

DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        autocompletion=completion.devices,
        help="Of `archcli devices`, a YAML file, or local, in place of --memory.",
    ),
]


def run(  # noqa: PLR0913
    model: Model,
    *,
    context: Context = None,
    batch_size: BatchSize = 1,
    dtype: Dtype = "bf16",
    state_dtype: StateDtype = None,
    source_len: SourceLen = None,
    memory: Memory = None,
    device: DeviceOption = None,
    tp: Tp = 1,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Count the KV cache and states: bytes per token, and what fits.

    With --memory or --device it says how many tokens and sequences fit: beside the weights, served (with a
    prefill and memory beyond the model, as archcli memory --phase serve), and for the cache alone.
    A table compares the caches of the same model with other kinds of attention. Without --context the length
    is max_seq_len, for which the model was trained, or 2048 where that is not stated.
    With --tp all figures are those of one device.
    """
    asked = subject(model, overrides)
    chosen = device_memory(device, memory)
    if chosen is not None and chosen.n_devices not in {1, tp}:
        what = f"--device names {chosen.n_devices:,} devices, and --tp {tp} shares the model among {tp:,}"
        from archcli.measure.memory.plan import Plan  # of this refusal alone

        wider = f"--tp {chosen.n_devices}, or " if Plan(tp=chosen.n_devices).suits(asked.model) else ""
        raise ArchError(what, f"{wider}--device {chosen.name}")
    available, architecture = (None, "") if chosen is None else (chosen.memory_bytes, chosen.architecture)
    report = count_kv_cache(
        asked.model,
        context,
        batch_size,
        dtype,
        available,
        source_len,
        state_dtype,
        tp=tp,
        architecture=architecture,
    )
    asked.show(report, form, output, as_json=as_json)
