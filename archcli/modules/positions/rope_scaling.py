"""How RoPE's frequencies are stretched beyond the context a model was trained on.

All change numbers, none changes a count.

r rotary dims; f_i = theta^(-2i/r) the plain frequency of pair i; L the original context, s the factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from archcli.arith import Number
from archcli.modules.spec.base import Conflict, Positive, Size, Spec
from archcli.modules.spec.values import Interval


def _exponents(torch: Any, width: int, positions: Any) -> Any:
    # whole numbers first, then fp32: the roundings of transformers' modeling_rope_utils.py
    return torch.arange(0, width, 2, dtype=torch.int64, device=positions.device).float() / width


class RopeScaling(Spec):
    """Base class: RoPE's frequencies, the factor on cos and sin, and the factor on attention scores."""

    family: ClassVar[str] = "rope_scaling"
    title: ClassVar[str] = ""
    """Its name in the field; empty for none."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Its name and factor, as a drawing says them: `YaRN × 40`."""
        factor: float = getattr(self, "factor", 1.0)  # that of no scaling
        return (f"{self.title} × {factor:,.15g}",) if self.title else ()

    @property
    def amplitude(self) -> float:
        """The factor on cos and sin."""
        return 1.0

    @property
    def near_amplitude(self) -> tuple[float, Number] | None:
        """(factor on cos and sin, tokens) where it is another up to so many tokens."""
        return None

    @property
    def score_factor(self) -> float:
        """The factor on attention scores."""
        return 1.0

    def frequencies(self, torch: Any, theta: float, width: int, positions: Any) -> Any:
        """f_i, unscaled."""
        return 1.0 / theta ** _exponents(torch, width, positions)


class NoScaling(RopeScaling):
    """f_i as they are."""

    kind: Literal["none"] = "none"


class LinearScaling(RopeScaling):
    """f_i / s: positions are interpolated. Chen et al. 2023, arXiv:2306.15595."""

    title = "linear"
    kind: Literal["linear"] = "linear"
    factor: Positive

    def frequencies(self, torch: Any, theta: float, width: int, positions: Any) -> Any:
        """f_i / s."""
        return super().frequencies(torch, theta, width, positions) / self.factor


class NTKScaling(RopeScaling):
    """theta becomes theta s^(r/(r-2)), so that the slowest pair is interpolated and the fastest is not.

    Described in arXiv:2309.00071 section 3.1.
    """

    title = "NTK"
    kind: Literal["ntk"] = "ntk"
    factor: Positive

    def frequencies(self, torch: Any, theta: float, width: int, positions: Any) -> Any:
        """Frequencies of the enlarged base."""
        return super().frequencies(torch, theta * self.factor ** (width / (width - 2)), width, positions)


class DynamicNTKScaling(RopeScaling):
    """NTK with s grown by the length n seen: theta (s n/L - (s - 1))^(r/(r-2)) once n > L.

    arXiv:2309.00071 section 3.3.
    """

    title = "dynamic NTK"
    kind: Literal["dynamic_ntk"] = "dynamic_ntk"
    factor: Positive
    original_max_seq_len: Size

    def frequencies(self, torch: Any, theta: float, width: int, positions: Any) -> Any:
        """Frequencies of the base grown for this length."""
        # up to L tokens the stretch is s L/L - (s - 1) = 1, and theta stays
        length = (positions[-1] + 1).clamp(min=self.original_max_seq_len).float()
        stretch = self.factor * length / self.original_max_seq_len - (self.factor - 1)
        return 1.0 / (theta * stretch ** (width / (width - 2))) ** _exponents(torch, width, positions)


class ProportionalScaling(RopeScaling):
    """f_i / s for the first `share` of the pairs, 0 for the others, which do not turn (Gemma 4).

    Differs from a smaller rotary_dim in the exponents, which go by the whole head, and in which dims are a
    pair.
    """

    title = "proportional"
    kind: Literal["proportional"] = "proportional"
    share: Annotated[float, Interval(ge=0, le=1)] = 1.0
    factor: Positive = 1.0

    def frequencies(self, torch: Any, theta: float, width: int, positions: Any) -> Any:
        """f_i / s, and zeros."""
        every = super().frequencies(torch, theta, width, positions) / self.factor
        # the order of transformers' rope_angles: the product is halved before it is cut to an int
        turned = torch.arange(width // 2, device=positions.device) < int(self.share * width // 2)
        return torch.where(turned, every, torch.zeros_like(every))


class Llama3Scaling(RopeScaling):
    """Long wavelengths are divided by s, short ones kept, those between blended.

    Llama 3.1, arXiv:2407.21783 section 3.4.2 and its reference code.

    Wavelengths above L / low_freq_factor are scaled, below L / high_freq_factor kept.
    """

    title = "llama3"
    kind: Literal["llama3"] = "llama3"
    factor: Positive
    low_freq_factor: Positive = 1.0
    high_freq_factor: Positive = 4.0
    original_max_seq_len: Size

    def frequencies(self, torch: Any, theta: float, width: int, positions: Any) -> Any:
        """f_i, f_i / s, or the blend."""
        plain = super().frequencies(torch, theta, width, positions)
        wavelengths = 2 * math.pi / plain
        span = self.high_freq_factor - self.low_freq_factor
        turns = self.original_max_seq_len / wavelengths - self.low_freq_factor
        # one expression for three cases: 0 divides by s, 1 keeps, and the ramp blends
        # equal factors leave no ramp but a step, in place of 0 / 0
        smooth = (turns / span).clamp(0, 1) if span else (turns > 0).float()
        return (1 - smooth) * plain / self.factor + smooth * plain

    def check(self) -> Iterator[Conflict]:
        """Conflict: low_freq_factor above high_freq_factor (equal is allowed, as in Llama 4 Scout)."""
        if self.high_freq_factor < self.low_freq_factor:
            yield Conflict(
                "frequency-factors-order",
                "high_freq_factor",
                "high_freq_factor must not be below low_freq_factor",
                f"low_freq_factor is {self.low_freq_factor}",
            )


class YarnScaling(RopeScaling):
    """Pairs that turn often within L are kept, slow ones divided by s, a ramp between.

    Peng et al. 2023, arXiv:2309.00071 section 3.2-3.4.

    cos and sin are multiplied by `attention_factor`, which left out is 0.1 ln s + 1. DeepSeek instead gives
    `mscale` and `mscale_all_dim`: the factor becomes m(mscale) / m(mscale_all_dim) with m(t) = 0.1 t ln s +
    1, and scores are multiplied by m(mscale_all_dim)^2.
    """

    title = "YaRN"
    kind: Literal["yarn"] = "yarn"
    factor: Positive
    original_max_seq_len: Size
    beta_fast: Positive = 32.0
    beta_slow: Positive = 1.0
    attention_factor: Positive | None = None
    mscale: Positive | None = None
    mscale_all_dim: Positive | None = None
    truncate: bool = True

    @property
    def amplitude(self) -> float:
        """The factor on cos and sin."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return self._magnitude(self.mscale) / self._magnitude(self.mscale_all_dim)
        return self._magnitude(1.0)

    @property
    def score_factor(self) -> float:
        """The factor on attention scores."""
        return self._magnitude(self.mscale_all_dim) ** 2 if self.mscale_all_dim else 1.0

    def frequencies(self, torch: Any, theta: float, width: int, positions: Any) -> Any:
        """f_i, f_i / s, or the ramp between."""
        plain = super().frequencies(torch, theta, width, positions)
        low, high = self._pair(self.beta_fast, theta, width), self._pair(self.beta_slow, theta, width)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, width - 1)
        pairs = torch.arange(width // 2, dtype=torch.float32, device=positions.device)
        # transformers adds 0.001 where both ends meet, to "prevent singularity"
        ramp = ((pairs - low) / ((high - low) or 0.001)).clamp(0, 1)
        return plain / self.factor * ramp + plain * (1 - ramp)

    def _pair(self, turns: float, theta: float, width: int) -> float:
        """The fractional index of the pair that makes this many turns within L tokens."""
        # solves L theta^(-2i/r) / (2 pi) = turns for i
        return width * math.log(self.original_max_seq_len / (turns * 2 * math.pi)) / (2 * math.log(theta))

    def _magnitude(self, mscale: float) -> float:
        # get_mscale of transformers and DeepSeek: for s up to 1, ln s would not be above 0
        return 1.0 if self.factor <= 1 else 0.1 * mscale * math.log(self.factor) + 1.0


class LongRopeScaling(RopeScaling):
    """A divisor per pair, one list up to L tokens and one beyond. Ding et al. 2024, arXiv:2402.13753.

    cos and sin are multiplied by `attention_factor`, which left out is sqrt(1 + ln s / ln L) (Phi-3,
    arXiv:2404.14219), and up to L tokens by `short_attention_factor` where that is another (Phi-3-small).
    """

    title = "LongRoPE"
    kind: Literal["longrope"] = "longrope"
    factor: Positive
    original_max_seq_len: Size
    short_factor: tuple[Positive, ...]
    long_factor: tuple[Positive, ...]
    attention_factor: Positive | None = None
    short_attention_factor: Positive | None = None

    @property
    def near_amplitude(self) -> tuple[float, Number] | None:
        """`short_attention_factor` and L."""
        if self.short_attention_factor is None:
            return None
        return self.short_attention_factor, self.original_max_seq_len

    @property
    def amplitude(self) -> float:
        """The factor on cos and sin."""
        if self.attention_factor is not None:
            return self.attention_factor
        return (
            1.0
            if self.factor <= 1
            else math.sqrt(1 + math.log(self.factor) / math.log(self.original_max_seq_len))
        )

    def frequencies(self, torch: Any, theta: float, width: int, positions: Any) -> Any:
        """f_i over its divisor; which list is decided by the newest position."""
        plain = super().frequencies(torch, theta, width, positions)
        short, long = (
            torch.tensor(factors, dtype=torch.float32, device=plain.device)
            for factors in (self.short_factor, self.long_factor)
        )
        # no Python branch: on the meta device, and while torch.compile traces, no value is known
        return plain / torch.where(positions[-1] + 1 > self.original_max_seq_len, long, short)

    def check(self) -> Iterator[Conflict]:
        """Conflicts: lists of unequal length, or a context of one token."""
        if self.original_max_seq_len == 1 and self.attention_factor is None:
            yield Conflict(
                "context-too-short",
                "original_max_seq_len",
                "a context of one token cannot be stretched",
                "2 at least",
            )
        if len(self.short_factor) != len(self.long_factor):
            yield Conflict(
                "factors-as-long",
                "long_factor",
                f"long_factor has {len(self.long_factor)} entries, short_factor {len(self.short_factor)}",
                "give one per rotated pair",
            )
