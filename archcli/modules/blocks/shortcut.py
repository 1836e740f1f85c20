"""ShortcutMoE: two layers of attention and a dense network, with experts beside the second.

x = x + A_0(N x);  u = N x;  m = M(u);  x = x + F_0(u);  x = x + A_1(N x);  x = x + F_1(N x) + m
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from archcli.graph import Tensor
from archcli.modules.attention.mixer import Mixer
from archcli.modules.blocks.block import RESIDUAL, Block
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Module
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import Add


class Sublayer(Module):
    """One of the two halves of a ShortcutMoE: x + A(N x), and its norm."""

    attention: Mixer
    dense: FeedForward
    norm: Norm

    def forward(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor, Kept]:
        """[B, T, D] to the stream after both, the input of the dense network, and the new cache."""
        y, kept = self.attention(self.norm(x, name="attention_norm"), context, name="attention")
        x = Add(f"attention{RESIDUAL}")(x, y)
        read = self.norm(x, name="dense_norm")
        x = Add(f"dense{RESIDUAL}")(x, self.dense(read, name="dense"))
        return x, read, kept


class ShortcutMoE(Block):
    """Two attentions and two `dense` networks in turn, and experts (`ffn`) beside the second.

    The experts read what the first network reads. Their output joins the stream at the end of the layer, so
    that sending tokens to experts and the second half run at the same time (ScMoE, arXiv:2404.05019;
    LongCat-Flash, arXiv:2509.01322 section 2.2). The two halves are alike and have weights of their own; each
    attention has a cache.
    """

    kind: Literal["shortcut_moe"] = "shortcut_moe"
    attention: Mixer
    ffn: FeedForward
    dense: FeedForward

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds that of both attentions."""
        context = or_default(x, context)
        self.hold(x)
        # unchecked, as sizes may be symbols; the two halves differ in the names of their weights alone
        half = Sublayer.unchecked(attention=self.attention, dense=self.dense, norm=self.norm)
        caches = context.cache or (context.cache, context.cache)
        x, read, first = half(x, context._replace(cache=caches[0]), name="sublayers.0")
        # `read` is the norm's output: the experts have no norm of their own (LongcatFlashDecoderLayer)
        shortcut = self.ffn(read, name="ffn")
        x, _, second = half(x, context._replace(cache=caches[1]), name="sublayers.1")
        x = Add(f"ffn{RESIDUAL}")(x, shortcut)
        return x, None if context.cache is None else (first, second)

    def check(self) -> Iterator[Conflict]:
        """Conflicts: fields of a plain residual stream, and networks that carry a state."""
        yield from super().check()
        yield from self.check_plain("shortcut_moe")
        for key in ("ffn", "dense"):
            if getattr(self, key).keeps_state:
                what = "a network of shortcut_moe cannot carry a state"
                yield Conflict("shortcut-without-state", key, what, "use kind mlp, glu or moe")
