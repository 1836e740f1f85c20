"""`archcli kvcache`: the size of an architecture's KV cache."""

from __future__ import annotations

from archcli.commands.base import subject
from archcli.commands.options import (
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
)
from archcli.measure.kvcache.kvcache import count_kv_cache


def run(  # noqa: PLR0913
    model: Model,
    *,
    context: Context = None,
    batch_size: BatchSize = 1,
    dtype: Dtype = "bf16",
    source_len: SourceLen = None,
    memory: Memory = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Count the KV cache: per token and at a length, beside other kinds of attention, and what fits.

    Without --context it is max_seq_len, the length the model was trained for; without that, 2048.
    """
    asked = subject(model, overrides)
    asked.show(
        count_kv_cache(asked.model, context, batch_size, dtype, memory, source_len),
        form,
        output,
        as_json=as_json,
    )
