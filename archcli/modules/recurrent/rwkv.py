"""RWKV-4: time mixing by a decaying mean of values, and channel mixing that sees the token before.

B batch, T new tokens, D d_model, W width, F d_ff.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.mixer import RecurrenceFacts
from archcli.modules.networks.activation import Activation, SquaredReLU
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.recurrent.base import Recurrent
from archcli.modules.spec.base import Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import WKV, Activate, Interpolate, Linear, Multiply, TokenShift


class RWKV4(Recurrent):
    """Time mixing of RWKV-4. Peng et al. 2023, arXiv:2305.13048 section 3.1.

        k, v, r = W_k mix_k(x), W_v mix_v(x), W_r mix_r(x)      mix(x)_t = m x_t + (1 - m) x_(t-1)
        wkv_t = the mean of v_s with weights e^(k_s - (t-1-s) w), s < t, and e^(k_t + u)
        out = W_o (sigmoid(r) wkv)

    `width` W left out is D. The state is the last token and a numerator, denominator and maximum for each
    channel, whatever the context.
    """

    title: ClassVar[str] = "RWKV-4 time mixing"
    short_title: ClassVar[str] = "time mixing"
    kind: Literal["rwkv4"] = "rwkv4"
    width: Size | None = None

    def recurrence(self, d_model: Number | None = None) -> RecurrenceFacts:
        """A weighted mean for each channel."""
        return RecurrenceFacts(d_model if self.width is None else self.width, 1, 1)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds a token [B, D] and three states [B, W]."""
        cache = or_default(x, context).cache
        width = x.shape[-1] if self.width is None else self.width
        shifted, *last = TokenShift("shift", cache is not None)(x, *(cache or ())[:1])
        k, v, r = (Linear(f"{name}_proj", width)(Interpolate(f"{name}_mix")(x, shifted)) for name in "kvr")
        y, *state = WKV("wkv", self.form, cache is not None)(k, v, *(cache or ())[1:])
        gated = Multiply("gated")(Activate("receptance", "sigmoid")(r), y)
        out = Linear("o_proj", x.shape[-1])(gated)
        return out, None if cache is None else (*last, *state)


class RWKVChannelMix(FeedForward):
    """Channel mixing of RWKV-4: sigmoid(W_r mix_r(x)) W_v f(W_k mix_k(x)). arXiv:2305.13048 section 3.1.

    mix(x)_t = m x_t + (1 - m) x_(t-1) for each channel, f the squared ReLU. The state is the last token.
    """

    title: ClassVar[str] = "RWKV-4 channel mixing"
    short_title: ClassVar[str] = "channel mixing"
    kind: Literal["rwkv_channel_mix"] = "rwkv_channel_mix"
    keeps_state: ClassVar[bool] = True
    is_gated: ClassVar[bool] = True
    d_ff: Size
    activation: Activation = SquaredReLU()

    def forward(self, x: Tensor, cache: Kept = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds a token [B, D]."""
        shifted, *last = TokenShift("shift", cache is not None)(x, *(cache or ()))
        hidden = Linear("k_proj", self.d_ff)(Interpolate("k_mix")(x, shifted))
        value = Linear("v_proj", x.shape[-1])(self.activation(hidden, name="activation"))
        receptance = Linear("r_proj", x.shape[-1])(Interpolate("r_mix")(x, shifted))
        y = Multiply("gated")(Activate("receptance", "sigmoid")(receptance), value)
        return y, None if cache is None else tuple(last)
