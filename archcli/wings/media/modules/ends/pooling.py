"""Pooling: the vectors of an image or a sound become one vector.

B batch, T tokens, D width.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.networks.activation import Activation, Tanh
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Count, Module, Size
from archcli.ops import (
    Add,
    Attend,
    Bidirectional,
    Concat,
    KeepFirst,
    Linear,
    MeanTokens,
    MergeHeads,
    Positions,
    SplitHeads,
    TrainedTokens,
)


class Pooling(Module):
    """A map from the vectors [B, T, D] of a whole to one vector [B, 1, D]."""

    family: ClassVar[str] = "pooling"
    default_kind: ClassVar[str] = "first"
    group: ClassVar[str] = "pooler"

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, 1, D]."""
        raise NotImplementedError


class FirstToken(Pooling):
    """The first token, which is the class token (ViT).

    It is normalized by `norm` (CLIP); with `dense` it becomes act(W x + b), act the `activation`.
    """

    kind: Literal["first"] = "first"
    norm: Norm | None = None
    dense: bool = False
    activation: Activation = Tanh()

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, 1, D]."""
        y: Tensor = KeepFirst("first")(x)
        y = y if self.norm is None else self.norm(y, name="norm")
        if self.dense:
            y = self.activation(Linear("dense", x.shape[-1], True)(y), name="activation")
        return y


class MeanToken(Pooling):
    """The mean of the tokens behind the first `skipped`, normalized by `norm` (BEiT, arXiv:2106.08254).

    With `width` a matrix and a bias make each token that wide before (Whisper's classifier).
    """

    kind: Literal["mean"] = "mean"
    skipped: Count = 0
    width: Size | None = None
    norm: Norm | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, 1, D], or as wide as `width`."""
        read = x if self.width is None else Linear("dense", self.width, True)(x)
        y: Tensor = MeanTokens("mean", self.skipped)(read)
        return y if self.norm is None else self.norm(y, name="norm")


class FirstAndMean(Pooling):
    """The first token and the mean of those behind it, side by side: [B, 1, 2 D] (DINOv2's classifier)."""

    kind: Literal["first_and_mean"] = "first_and_mean"

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, 1, 2 D]."""
        both: Tensor = Concat("both")(KeepFirst("first")(x), MeanTokens("mean", 1)(x))
        return both


class BesidePooling(Pooling):
    """One vector by `pooling`; `unused` runs beside it, and nothing reads what it makes.

    Classifiers of CLIP and SigLIP take the mean of the tokens, and compute the pooled vector that texts are
    compared with all the same.
    """

    kind: Literal["beside"] = "beside"
    pooling: Pooling
    unused: Pooling

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, 1, D]."""
        self.unused(x, name="unused", no_grad="unread")
        pooled: Tensor = self.pooling(x, name="pooling")
        return pooled


class AttentionPooling(Pooling):
    """y = o(softmax(q k^T) v) of one trained query q, k = Wk x, v = Wv x; then y += F(N y) with an `ffn`.

    Set transformers, arXiv:1810.00825 section 3.2; SigLIP, arXiv:2303.15343. `projects_query` passes q
    through a matrix, too. `bias` is of q, k and v, `bias_o` of o.
    """

    kind: Literal["attention"] = "attention"
    n_heads: Size
    projects_query: bool = True
    bias: bool = True
    bias_o: bool = True
    norm: Norm | None = None
    ffn: FeedForward | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, 1, D]."""
        d = x.shape[-1]
        probe = TrainedTokens("probe", 1)(x)
        q = Linear("q_proj", d, self.bias)(probe) if self.projects_query else probe
        k, v = (Linear(f"{name}_proj", d, self.bias)(x) for name in "kv")
        heads = [SplitHeads(f"{n}_heads", self.n_heads)(y) for n, y in zip("qkv", (q, k, v), strict=True)]
        scale = (d // self.n_heads) ** -0.5
        mixed = Attend("attend", Bidirectional(), scale)(*heads, Positions("positions")(probe))
        y: Tensor = Linear("o_proj", d, self.bias_o)(MergeHeads("merge")(mixed))
        if self.ffn is None:
            return y
        normed = y if self.norm is None else self.norm(y, name="norm")
        total: Tensor = Add("ffn_residual")(y, self.ffn(normed, name="ffn"))
        return total
