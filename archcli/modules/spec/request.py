"""Request: the pass to count, its phase and lengths. InputSpec: a tensor that the pass reads.

The same request is counted, built, run and timed; `Model.inputs` says with which tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple

from archcli.arith import Number, Shape, is_whole, maximum, minimum
from archcli.errors import ArchError
from archcli.modules.spec.values import Conversion, SizeAboveZero, SizeFromZero, check_values, refused

Phase = Literal["forward", "train", "prefill", "decode"]
Logits = Literal["all", "last"]

DEFAULT_LOGITS: Mapping[Phase, Logits] = {
    "forward": "all",
    "train": "all",
    "prefill": "last",
    "decode": "last",
}


USUAL_TOKENS = 2048


def usual_tokens(longest: Number | None, new: int = 0) -> Number:
    """Tokens of a sequence where none are stated: 2048, or max_seq_len where that is less.

    `new` further tokens have a position behind them.
    """
    return USUAL_TOKENS if longest is None else minimum(USUAL_TOKENS, longest - new)


def pass_lengths(
    longest: Number | None, phase: Phase, seq_len: Number | None = None, past: Number | None = None
) -> dict[str, Any]:
    """The `seq_len` and `past` of a pass, of which what is left out is usual for a max_seq_len."""
    if phase == "decode" and seq_len is None:
        return {"seq_len": 1, "past": usual_tokens(longest, 1) if past is None else past}
    # behind `past` tokens as many as have a position, one at least
    usual = maximum(1, usual_tokens(longest, past or 0)) if seq_len is None else seq_len
    return {"seq_len": usual, "past": past}


AUTO = "auto"
"""The form of a module that leaves the choice to the phase."""


class Forms(NamedTuple):
    """Mathematically equal ways to compute a module: `by_phase` is what auto means in each phase.

    `key` names the choice among a request's `forms`, and the option of the command line.
    """

    key: str
    by_phase: Mapping[Phase, str]


SCAN = Forms("scan", {"forward": "chunked", "train": "chunked", "prefill": "chunked", "decode": "recurrent"})
"""The forms of a recurrence: over chunks of tokens, or token by token."""


class InputSpec(NamedTuple):
    """One input tensor: `ids` of a table with `n_ids` entries, or real-valued `features` (`n_ids` None)."""

    shape: Shape
    kind: Literal["ids", "features"]
    n_ids: Number | None = None


SOUNDS = ("frames", "samples", "seconds")
"""Kinds of media that are sounds."""


class Medium(NamedTuple):
    """An image or a sound that a model reads: its kind, and its size in the units of that kind.

    image: (height, width) in pixels. video: (frames, height, width). frames: (N,) of a spectrogram. samples:
    (N,) of a wave. seconds: (N,) of sound.
    """

    kind: str
    size: tuple[int, ...]


def _media(value: Any) -> tuple[Medium, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, Medium) for entry in value):
        raise refused(value, "a list of Medium")
    return tuple(value)


Media = Annotated[tuple[Medium, ...], Conversion("a list of Medium", _media)]


@dataclass(frozen=True, slots=True)
class Request:
    """One pass through a model, by the names of the options of `archcli flops`.

    forward is one full pass, train the same and its backward, prefill a pass that fills the cache, decode one
    token against a full cache. `seq_len` tokens per sequence are new, `past` are in the cache already.
    `source_len` is how many positions an encoder-decoder's encoder has. `logits` are those of all positions
    or of the last. None leaves a value to the phase (`resolved`).

    `forms` picks between equal ways to compute a module: {"mla": "absorbed"}. A key that is absent or auto
    leaves modules as their YAML states them, and what that leaves open to the phase. `media` are the images
    and sounds that the model reads; left out, an encoder of images or sounds reads one of its usual size.
    With `in_prompt` towers run in the pass, and the tokens of all media are among the new ones; without it a
    language model runs alone, and `fitted` adds them.

    Sizes are whole numbers, numpy's included, or for `archcli.measure` symbols of sympy and arrays of numpy.
    Raises ArchError for any other value.

    Example: `count_flops("gpt2", Request(phase="decode", past=9)).inputs["past"]` is 9.
    """

    phase: Phase = "forward"
    batch_size: SizeAboveZero = 1
    seq_len: SizeAboveZero = USUAL_TOKENS
    past: SizeFromZero | None = None
    source_len: SizeAboveZero | None = None
    logits: Logits | None = None
    forms: Mapping[str, str] = field(default_factory=dict)
    media: Media = ()
    in_prompt: bool = False

    def __post_init__(self) -> None:
        check_values("Request", self)

    def resolved(self) -> Request:
        """The request with every value that its phase decides filled in, except `source_len`.

        A decoding pass has one new token; its `past` left out is `seq_len`. Raises ArchError where values
        contradict each other.
        """
        if self.phase == "train" and not _is_empty(self.past):
            raise ArchError("training starts from an empty cache", "leave past out")
        if self.phase == "train" and self.logits == "last":
            raise ArchError("training needs the logits at every position", "leave logits out")
        if self.phase == "decode":
            past = self.seq_len if self.past is None else self.past
            return replace(self, past=past, seq_len=1, logits="last")
        past = 0 if self.past is None else self.past
        return replace(self, past=past, logits=self.logits or DEFAULT_LOGITS[self.phase])

    def filling(self) -> Request:
        """The prefill request that fills the cache with this request's `past` tokens."""
        return replace(
            self,
            phase="prefill",
            seq_len=0 if self.past is None else self.past,
            past=0,
            # a source left out follows `seq_len` and `past`, which change here
            source_len=self.source_positions,
            logits="last",
        )

    @property
    def is_plain(self) -> bool:
        """Whether all sizes are ints, no symbols or arrays."""
        sizes = (self.batch_size, self.seq_len, self.past, self.source_len)
        return all(size is None or is_whole(size) for size in sizes)

    @property
    def continues(self) -> bool:
        """Whether the cache holds tokens before the new ones."""
        return not _is_empty(self.past)

    @property
    def caches(self) -> bool:
        """Whether the pass reads or fills a cache."""
        return self.phase in {"prefill", "decode"} or self.continues

    @property
    def last_only(self) -> bool:
        """Whether only the last position gets logits."""
        return self.logits == "last"

    @property
    def source_positions(self) -> Number:
        """Encoder positions: `source_len`, by default the number of new tokens, in decoding `past`."""
        if self.source_len is not None:
            return self.source_len
        if self.phase != "decode":
            return self.seq_len
        # a source has one position at least, also where decoding starts from an empty cache
        return 1 if self.past is None or _is_empty(self.past) else self.past


def _is_empty(past: Number | None) -> bool:
    # symbols and arrays are never compared with 0: they stand for caches that hold something
    return past is None or (is_whole(past) and past == 0)
