"""The training recipe, as far as design rules judge it. Nothing here is counted or run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from archcli.modules.base import Conflict, Count, Spec
from archcli.modules.values import Interval

Share = Annotated[float, Interval(ge=0)]


class Training(Spec):
    """Notes of a recipe; what is left out is not judged.

    `dropout` and `weight_decay` are those of pretraining, `decay_norms` whether norms and biases decay too,
    `warmup_steps` how many steps the learning rate rises.
    """

    dropout: Share | None = None
    weight_decay: Share | None = None
    decay_norms: bool | None = None
    warmup_steps: Count | None = None

    def check(self) -> Iterator[Conflict]:
        """Conflict: a dropout share of 1 or more."""
        if self.dropout is not None and self.dropout >= 1:
            yield Conflict(
                "dropout-below-one", "dropout", f"dropout {self.dropout} drops everything", "a share below 1"
            )
