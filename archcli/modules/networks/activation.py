"""Activation functions, and dropout. `activation: silu` is short for `activation: {kind: silu}`."""

from __future__ import annotations

from typing import ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.spec.base import Inline, Positive
from archcli.ops import Activate


class Activation(Inline):
    """An element-wise function."""

    family: ClassVar[str] = "activation"

    def forward(self, x: Tensor, *, name: str) -> Tensor:
        """f(x), element by element; the kind names the function."""
        # getattr: the base has no `kind`, each of its classes has
        y: Tensor = Activate(name, getattr(self, "kind"))(x)  # noqa: B009
        return y


class ReLU(Activation):
    """max(x, 0). With a gate: ReGLU."""

    kind: Literal["relu"] = "relu"


class ReLU6(Activation):
    """min(max(x, 0), 6). MobileNet, arXiv:1704.04861; arXiv:1801.04381 section 3."""

    kind: Literal["relu6"] = "relu6"


class HardSwish(Activation):
    """x min(max(x + 3, 0), 6) / 6. MobileNetV3, arXiv:1905.02244 section 5.2."""

    kind: Literal["hard_swish"] = "hard_swish"


class SquaredReLU(Activation):
    """max(x, 0)^2. Primer, So et al. 2021, arXiv:2109.08668; Nemotron-4."""

    kind: Literal["relu2"] = "relu2"


class GELU(Activation):
    """x Phi(x), exactly, by erf. Hendrycks & Gimpel 2016, arXiv:1606.08415. With a gate: GeGLU."""

    kind: Literal["gelu"] = "gelu"


class GELUTanh(Activation):
    """GELU by its tanh approximation, as GPT-2 and Gemma compute it. arXiv:1606.08415 section 2."""

    kind: Literal["gelu_tanh"] = "gelu_tanh"


class SiLU(Activation):
    """x sigmoid(x): Swish with beta 1. arXiv:1606.08415, arXiv:1710.05941. With a gate: SwiGLU."""

    kind: Literal["silu"] = "silu"


class Sigmoid(Activation):
    """1 / (1 + exp(-x)). With a gate: the GLU of Dauphin et al. 2016, arXiv:1612.08083."""

    kind: Literal["sigmoid"] = "sigmoid"


class Softplus(Activation):
    """ln(1 + exp(x)): a smooth ReLU. Dugas et al. 2000, NeurIPS 13."""

    kind: Literal["softplus"] = "softplus"


class Tanh(Activation):
    """tanh x. BERT's pooler."""

    kind: Literal["tanh"] = "tanh"


class XIELU(Activation):
    """a x^2 + beta x for x > 0, else b (exp(min(x, -eps)) - 1 - x) + beta x. arXiv:2411.13010; Apertus.

    a = softplus(alpha_p) and b = beta + softplus(alpha_n) with two trained scalars per layer, which start
    where a is 0.8 and b is beta + 0.3. `eps` keeps the exponential below 1.
    """

    kind: Literal["xielu"] = "xielu"
    beta: Positive = 0.5
    eps: Positive = 1e-6

    def forward(self, x: Tensor, *, name: str) -> Tensor:
        """The two branches, by the sign of x."""
        from archcli.ops.pointwise import ActivateXIELU

        y: Tensor = ActivateXIELU(name, self.beta, self.eps)(x)
        return y


class Swish(Activation):
    """x sigmoid(beta x). Ramachandran et al. 2017, arXiv:1710.05941.

    `learnt` trains beta, one scalar per layer, from the given start.
    """

    kind: Literal["swish"] = "swish"
    beta: Positive = 1.0
    learnt: bool = False

    def forward(self, x: Tensor, *, name: str) -> Tensor:
        """x sigmoid(beta x)."""
        from archcli.ops.pointwise import ActivateSwish

        y: Tensor = ActivateSwish(name, self.beta, self.learnt)(x)
        return y


def dropped(x: Tensor, share: float, name: str = "dropout", group: str = "") -> Tensor:
    """Apply dropout with probability `share` to x, counted under `group`; no operation for 0."""
    if not share:
        return x
    from archcli.ops import Dropout  # rare: not loaded with every block

    y: Tensor = Dropout(name, share)(x, group=group)
    return y
