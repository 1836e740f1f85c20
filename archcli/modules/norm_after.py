"""A block whose norms follow its sublayers, inside the residual."""

from __future__ import annotations

from typing import Literal

from archcli.graph import Tensor
from archcli.modules.block import SerialBlock


class ResidualPostNorm(SerialBlock):
    """x += N(A x); x += N(F x): the norm follows the sublayer, inside the residual.

    OLMo 2, arXiv:2501.00656 section 2.1.

    Differs from PostNorm in leaving the residual stream itself unnormalized.
    """

    kind: Literal["norm_after"] = "norm_after"

    def before(self, x: Tensor, name: str) -> Tensor:
        """x."""
        return x

    def after(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        """x + N y."""
        return self._add(x, self.norm(y, name=f"{name}_norm"), name)
