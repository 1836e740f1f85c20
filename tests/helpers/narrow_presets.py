"""Presets with few layers, a small vocabulary and a sixteenth of all widths, to be run on a CPU."""

from archcli.modules import substitute
from archcli.modules.spec.base import settings
from short_presets import shortened

FACTOR = 16
WORDS = 160
WHOLE = {"n_layers", "n_experts", "top_k", "window", "chunk", "max_seq_len", "original_max_seq_len"}
WHOLE |= {"kernel", "n_groups", "source_len", "stride", "period", "depth", "n_buckets", "max_distance"}
"""Fields that are no widths."""


def narrowed(name):
    """The preset, with windows of 6 tokens and widths that are a sixteenth where that is even."""
    changes, model = {}, shortened(name, window=6)
    for path, value in settings(model):
        field = path.rpartition(".")[2]
        if field == "vocab_size" and value:
            changes[path] = min(value, WORDS)
        elif (
            type(value) is int
            and field not in WHOLE
            and "heads" not in field
            and value % (2 * FACTOR) == 0 < value
        ):
            changes[path] = value // FACTOR
    return substitute(model, changes)
