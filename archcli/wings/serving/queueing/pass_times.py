"""Seconds of a server's passes, by the kernels of `predict`.

A pass of prompts and tokens is that of its tokens alone, and what each piece of a prompt adds: its attention,
and the products of its tokens, which read weights that the pass reads anyway:

    tokens(b, context) + attention of each piece + products(b + pieces) - products(b)

Each term is a predicted pass or the difference of two. Sizes between those of a grid are interpolated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, inf, log
from typing import Literal, NamedTuple, get_args

from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.answers.question import PredictQuestion
from archcli.wings.serving.predict.prediction import Prediction, predict_pass
from archcli.wings.serving.predict.serving import OF_SEQUENCES
from archcli.wings.serving.queueing.server import PromptPiece

SIZES = tuple(2**power for power in range(27))
"""Sequences and tokens of predicted passes."""
BEFORE = (0, *SIZES[8:])
"""Tokens before a piece of a prompt: its attention grows with them on a line, and as a power of its own."""


class PassParts(NamedTuple):
    """Seconds of a pass: of attention and scans, which go by sequence, and of all else."""

    of_sequences: float
    of_tokens: float


def between(
    grid: Sequence[int], size: float, value: Callable[[int], float], *, as_power: bool = False
) -> float:
    """The value at a size, between those of the grid on both sides: on a line, or as a power of the size."""
    index = bisect_left(grid, size)
    high = grid[index]
    if high == size or not index:
        return value(high)
    low = grid[index - 1]
    at_low, at_high = value(low), value(high)
    if as_power and at_low > 0 and at_high > 0:
        share = log(size / low) / log(high / low)
        return float(at_low ** (1 - share) * at_high**share)
    share = (size - low) / (high - low)
    return (1 - share) * at_low + share * at_high


Figure = Literal["floor", "expected"]
FIGURES: tuple[Figure, ...] = get_args(Figure)


@dataclass(slots=True)
class PredictedPasses:
    """Passes of a replica of a question's plan, each predicted once: seconds by `figure`, times `scale`.

    Passes are of all replicas, which run alike. With attention data parallelism its groups share the tokens
    of a replica's prompts. micro_batch, in_turn: as of the scheduler.
    """

    question: PredictQuestion
    micro_batch: int | None = None
    figure: Figure = "expected"
    scale: float = 1.0
    in_turn: bool = False
    _known: dict[tuple[str, int, int, int], dict[Figure, PassParts]] = field(default_factory=dict)
    _memo: dict[tuple[object, ...], float] = field(default_factory=dict)
    _lines: dict[tuple[Figure, int, int], tuple[float, float]] = field(default_factory=dict)

    def by(self, figure: Figure, scale: float) -> PredictedPasses:
        """The same passes by another figure, without predicting any anew."""
        return replace(self, figure=figure, scale=scale)

    def tokens_s(self, sequences: int, context: float) -> float:
        """A pass that makes a token of each of so many sequences, behind so many tokens in the mean."""
        if not sequences:
            return 0.0

        def of(tokens: int) -> float:
            return between(SIZES, sequences, lambda batch: sum(self._of("decode", batch, tokens, 0)))

        index = bisect_left(SIZES, context)
        high, low = SIZES[index], SIZES[index - 1]
        if high == context or not index:
            return self.scale * self._once(("tokens", sequences, high), lambda: of(high))
        line = self._lines.get((self.figure, sequences, high))
        if line is None:
            line = of(low), (of(high) - of(low)) / (high - low)
            self._lines[self.figure, sequences, high] = line
        return float(self.scale * (line[0] + line[1] * (context - low)))

    def mixed_s(self, sequences: int, context: float, pieces: Sequence[PromptPiece]) -> float:
        """A pass with pieces of prompts as well; without sequences, of these alone."""
        tokens = sum(piece.tokens for piece in pieces)
        attention = sum(self._attention_s(piece, is_first=not number) for number, piece in enumerate(pieces))
        sharing = 0 if self.in_turn else sequences
        products = self._products_s(sharing + tokens) - (self._products_s(sharing) if sharing else 0.0)
        return self.tokens_s(sequences, context) + self.scale * (attention + max(0.0, products))

    def _once(self, key: tuple[object, ...], seconds: Callable[[], float]) -> float:
        """Seconds that are interpolated once for each figure."""
        known = self._memo.get((self.figure, *key))
        if known is None:
            known = self._memo[self.figure, *key] = seconds()
        return known

    def _products_s(self, tokens: int) -> float:
        def of(tokens: float) -> float:
            return between(SIZES, tokens, lambda size: self._of("prefill", 1, size, 0).of_tokens)

        of_group = tokens / self.question.plan.dp_attention
        whole, rest = divmod(of_group, self.micro_batch or inf)
        return self._once(
            ("products", tokens),
            lambda: whole * of(self.micro_batch or 1) + (of(rest) if rest else 0.0),
        )

    def _attention_s(self, piece: PromptPiece, *, is_first: bool) -> float:
        """A piece without its products: attention. One behind others in a pass is launched with them."""

        def behind(past: int) -> float:
            def of(tokens: int) -> float:
                # what a past adds is not in kernels of attention alone
                return sum(self._of("prefill", 1, tokens, past)) - self._of("prefill", 1, tokens, 0).of_tokens

            return between(SIZES, piece.tokens, of, as_power=True)

        seconds = self._once(("attention", piece), lambda: between(BEFORE, piece.past, behind))
        if is_first:
            return seconds
        launched = self._of("prefill", 1, 1, 0).of_sequences
        return max(0.0, seconds - launched) / self.question.plan.dp_attention

    def _of(self, phase: Literal["prefill", "decode"], batch: int, tokens: int, past: int) -> PassParts:
        key = phase, batch, tokens, past
        if key not in self._known:
            question = self.question
            settings = replace(question.settings, phase=phase, seq_len=tokens, past=past, new=0)
            predicted = self._predicted(settings, batch)
            self._known[key] = {figure: _parts(predicted, figure) for figure in FIGURES}
        return self._known[key][self.figure]

    def _predicted(self, settings: MemorySettings, batch: int) -> Prediction:
        """A pass of all replicas; with a draft a token's part of a round, and its prompts too."""
        question, plan = self.question, self.question.plan
        groups = plan.dp_attention if settings.phase == "prefill" else 1
        settings = replace(settings, batch_size=batch * plan.dp * groups)
        if settings.phase == "decode":
            drafted = question.draft_round(
                int(settings.batch_size), int(settings.text_tokens(question.model))
            )
            if drafted is not None:
                return drafted.token
        predicted = predict_pass(question.model, settings, question.timing, plan, question.cache)
        if question.draft is None:
            return predicted
        return question.draft.with_prompt(question.model, settings, plan, predicted)


def _parts(prediction: Prediction, figure: Figure) -> PassParts:
    in_rows = fsum(getattr(row.seconds, figure) for row in prediction.rows if row.op_class in OF_SEQUENCES)
    return PassParts(in_rows, getattr(prediction.seconds, figure) - in_rows)
