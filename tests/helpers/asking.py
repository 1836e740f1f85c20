"""Asking all references about a model, as `archcli verify` does."""

from archcli.measure.passes import decode_pass, forward_pass, prefill_pass, train_pass
from archcli.wings.running.runtime.verify.verify import CountedPasses, verify


def ask(spec, batch_size=2, seq_len=5, source_len=7):
    forward, train, *steps = [
        make(spec, batch_size, seq_len, source_len=source_len)
        for make in (forward_pass, train_pass, *((prefill_pass, decode_pass) if spec.caches else ()))
    ]
    return verify(spec, CountedPasses(forward, train, tuple(steps) or None, batch_size, seq_len, source_len))


def failures(verified):
    """(reference, what, where) of what differs."""
    return [(result.reference, result.what, result.where) for result in verified.results if not result.ok]
