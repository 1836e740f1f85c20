"""Seconds of a server's passes, by the kernels of `predict`.

A pass of prompts and tokens is that of its tokens alone, and what each piece of a prompt adds: its attention,
and the products of its tokens, which read weights that the pass reads anyway:

    tokens(b, context) + attention of each piece + products(b + pieces) - products(b)

Each term is a predicted pass or the difference of two. Sizes between those of a grid are interpolated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from math import fsum
from typing import Literal, NamedTuple, get_args

from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.answers.question import PredictQuestion
from archcli.wings.serving.predict.prediction import Prediction, predict_pass
from archcli.wings.serving.predict.serving import OF_SEQUENCES
from archcli.wings.serving.queueing.server import Piece

LARGEST = 1 << 26


def sizes() -> Iterator[int]:
    """Sizes of the grid: 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on."""
    yield 1
    for power in count(1):
        yield from (2**power, 3 * 2 ** (power - 1))


SIZES = (*takewhile(lambda size: size <= LARGEST, sizes()),)
ROUND_NUMBERS = (0, *SIZES[2 * 8 - 1 :])
"""Tokens of the grid that stand before a pass: 0, then from 256 on."""


class Parts(NamedTuple):
    """Seconds of a pass: of attention and scans, which go by sequence, and of all else."""

    of_sequences: float
    of_tokens: float


def between(grid: Sequence[int], size: float, value: Callable[[int], float]) -> float:
    """The value at a size, linear between those of the grid on both sides."""
    index = bisect_left(grid, size)
    high = grid[index]
    if high == size or not index:
        return value(high)
    low = grid[index - 1]
    share = (size - low) / (high - low)
    return (1 - share) * value(low) + share * value(high)


Figure = Literal["floor", "low", "expected", "high"]
FIGURES: tuple[Figure, ...] = get_args(Figure)


@dataclass(slots=True)
class PredictedPasses:
    """Passes of a replica of a question's plan, each predicted once: seconds by `figure`, times `scale`.

    Passes are of all replicas, which run alike. With attention data parallelism its groups share the tokens
    of a replica's prompts.
    """

    question: PredictQuestion
    figure: Figure = "expected"
    scale: float = 1.0
    _known: dict[tuple[str, int, int, int], dict[Figure, Parts]] = field(default_factory=dict)

    def by(self, figure: Figure, scale: float) -> PredictedPasses:
        """The same passes by another figure, without predicting any anew."""
        return replace(self, figure=figure, scale=scale)

    def tokens_s(self, sequences: int, context: float) -> float:
        """A pass that makes a token of each of so many sequences, behind so many tokens in the mean."""

        def of(batch: int) -> float:
            return between(SIZES, context, lambda tokens: sum(self._of("decode", batch, tokens, 0)))

        return self.scale * between(SIZES, sequences, of) if sequences else 0.0

    def mixed_s(self, sequences: int, context: float, pieces: Sequence[Piece]) -> float:
        """A pass with pieces of prompts as well; without sequences, of these alone."""
        tokens = sum(piece.tokens for piece in pieces)
        attention = sum(self._attention_s(piece, is_first=not number) for number, piece in enumerate(pieces))
        products = self._products_s(sequences + tokens) - (self._products_s(sequences) if sequences else 0.0)
        return self.tokens_s(sequences, context) + self.scale * (attention + max(0.0, products))

    def _products_s(self, tokens: int) -> float:
        of_group = tokens / self.question.plan.dp_attention
        return between(SIZES, of_group, lambda size: self._of("prefill", 1, size, 0).of_tokens)

    def _attention_s(self, piece: Piece, *, is_first: bool) -> float:
        """Attention of a piece; of one behind others in a pass, what a further sequence adds."""

        def of(past: int, tokens: int) -> float:
            alone = self._of("prefill", 1, tokens, past).of_sequences
            more = 0.0 if is_first else self._of("prefill", 2, tokens, past).of_sequences - alone
            return alone if is_first else more / self.question.plan.dp_attention

        return between(
            ROUND_NUMBERS,
            piece.past,
            lambda past: between(SIZES, piece.tokens, lambda tokens: of(past, tokens)),
        )

    def _of(self, phase: str, batch: int, tokens: int, past: int) -> Parts:
        key = phase, batch, tokens, past
        if key not in self._known:
            question = self.question
            settings = replace(question.settings, phase=phase, seq_len=tokens, past=past, new=0)
            predicted = self._predicted(settings, batch)
            self._known[key] = {figure: _parts(predicted, figure) for figure in FIGURES}
        return self._known[key][self.figure]

    def _predicted(self, settings: MemorySettings, batch: int) -> Prediction:
        question, plan = self.question, self.question.plan
        groups = plan.dp_attention if settings.phase == "prefill" else 1
        settings = replace(settings, batch_size=batch * plan.dp * groups)
        return predict_pass(question.model, settings, question.timing, question.plan, question.cache)


def _parts(prediction: Prediction, figure: Figure) -> Parts:
    in_rows = fsum(
        getattr(row.seconds, figure) for row in prediction.rows if row.op_class in OF_SEQUENCES
    )
    return Parts(in_rows, getattr(prediction.seconds, figure) - in_rows)
