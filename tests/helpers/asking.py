"""Asking all witnesses about a model, as `archcli verify` does."""

from archcli.measure.passes import decode_pass, forward_pass, prefill_pass, train_pass
from archcli.runtime.verify.verify import Asked, verify


def ask(spec, batch_size=2, seq_len=5, source_len=7):
    forward, train, *steps = [
        make(spec, batch_size, seq_len, source_len=source_len)
        for make in (forward_pass, train_pass, *((prefill_pass, decode_pass) if spec.caches else ()))
    ]
    return verify(spec, Asked(forward, train, tuple(steps) or None, batch_size, seq_len, source_len))


def failures(verdict):
    """(witness, what, where) of what differs."""
    return [(finding.witness, finding.what, finding.where) for finding in verdict.findings if not finding.ok]
