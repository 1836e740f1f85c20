"""Rules of low-rank adapters: another rank or scale of some projections, in all layers or in some."""

from __future__ import annotations

import re
from collections.abc import Iterator

from archcli.modules.spec.base import Conflict, Count, Positive, Spec

LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
SPANS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


class AdapterRule(Spec):
    """The rank and scale of adapters of `match`, a target or the last steps of a path: q, attention.q.

    Of several rules that name a projection the last decides. `rank` 0 leaves it without an adapter; `alpha`
    left out is that of all others. `layers` is 0-3,7 for those that are meant; left out, all of them.
    peft's rank_pattern, alpha_pattern and layers_to_transform.
    """

    match: str
    rank: Count
    alpha: Positive | None = None
    layers: str | None = None

    def check(self) -> Iterator[Conflict]:
        """Conflict: layers that are no list of numbers."""
        if self.layers is not None and not SPANS.fullmatch(self.layers):
            what = f"layers {self.layers!r} must be numbers and ranges"
            yield Conflict("lora-rule-layers", "layers", what, "such as 0-3,7")

    def has_layer(self, path: str) -> bool:
        """Whether the rule is for the layer of a module at this path."""
        if self.layers is None:
            return True
        layer = LAYER.search(f"{path}.")
        return layer is not None and any(int(layer[1]) in span for span in _spans(self.layers))


def _spans(layers: str) -> Iterator[range]:
    for span in layers.split(","):
        first, _, last = span.partition("-")
        yield range(int(first), int(last or first) + 1)
