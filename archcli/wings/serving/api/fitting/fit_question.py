"""FitQuestion: the question of `archcli fit` about one model and one device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from archcli.wings.serving.api.fitting.forms import LEAST, MIN_BITS
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.offload import HostMemory
from archcli.wings.serving.memory.traced import Passes
from archcli.wings.serving.predict.answers.question import PredictQuestion

UNSTATED = 32_768
"""The longest context to try where the model states no max_seq_len."""


@dataclass(frozen=True)
class FitQuestion:
    """The question of `archcli fit` about one model and one device.

    memory, predict: ask these commands with some options replaced, `memory(dtype="q4_k_m", seq_len=8192)`.
    dtype: the format; None for the best.
    context: tokens of a sequence that must fit; None for the most.
    longest: tokens that the model was trained for, or the most to try.
    min_speed: tokens a second to expect at least.
    ram_bytes: the most bytes in RAM.
    min_bits: of a weight of the first choice, where such a format fits.
    engine: as asked; None for the usual one.
    passes: those of the model, kept between its formats.
    """

    memory: Callable[..., MemoryQuestion]
    predict: Callable[..., PredictQuestion]
    dtype: str | None = None
    context: int | None = None
    longest: int = UNSTATED
    min_speed: float | None = None
    ram_bytes: int = 0
    min_bits: float = MIN_BITS
    engine: str | None = None
    passes: Passes | None = None

    def by_engine(self, engine: str) -> FitQuestion:
        """The same question about an engine."""
        options = {"engine": engine}
        memory, predict = partial(self.memory, **options), partial(self.predict, **options)
        return replace(self, memory=memory, predict=predict, engine=engine)

    def offloading(self) -> FitQuestion:
        """The same question, with layers that do not fit in RAM of the usual size."""
        of_engine, options = self.by_engine("llamacpp"), {"offload": "auto"}
        memory, predict = partial(of_engine.memory, **options), partial(of_engine.predict, **options)
        return replace(of_engine, memory=memory, predict=predict, ram_bytes=HostMemory().bytes)

    @property
    def wanted(self) -> tuple[int, ...]:
        """Tokens of context that must fit, the most first: --context, or 8192, 2048 and 512."""
        if self.context is not None:
            return (self.context,)
        return tuple(dict.fromkeys(min(tokens, self.longest) for tokens in LEAST))
