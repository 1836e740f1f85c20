"""`archcli kvcache`: the size of an architecture's KV cache."""

from __future__ import annotations

from archcli.api.asking.subject import subject
from archcli.api.kvcache import KvcacheOptions, cache_report
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.render import show


@asking(KvcacheOptions)
def run(
    options: KvcacheOptions,
    *,
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
    With images, videos or sounds --context is the text beside them, by default 2048 tokens.
    With --tp all figures are those of one device.
    """
    show(cache_report(subject(options.model, overrides), options), form, output, as_json=as_json)
