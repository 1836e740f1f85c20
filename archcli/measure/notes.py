"""Notes on requests beyond a model's intended use, such as a context longer than it was made for."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.modules import Model, settings


def context_notes(model: Model, tokens: int) -> Iterator[str]:
    """A note where the tokens exceed the model's max_seq_len."""
    limits = [
        value for path, value in settings(model) if path.split(".")[-1] == "max_seq_len" and value is not None
    ]
    if limits and tokens > min(limits):
        yield f"{tokens:,} tokens are beyond max_seq_len {min(limits):,}: counted by shape all the same."


def source_notes(model: Model, source_len: int | None) -> Iterator[str]:
    """A note where `source_len` has no effect: no source, or one of fixed length."""
    length = None if source_len is None else model.source_length(source_len)
    if length == source_len:
        return
    reason = (
        "this model has no encoder"
        if length is None
        else f"this model's encoder always has {length:,} positions"
    )
    yield f"--source-len has no effect: {reason}."
