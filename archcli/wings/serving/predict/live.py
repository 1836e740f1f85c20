"""LiveServer: what an engine's live servers take beside their kernels, and the range that held them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archcli.wings.serving.predict.times import Seconds


class Prompts(NamedTuple):
    """The prompts that a live server runs while it makes the tokens of a sequence.

    alone: the prefill of one. added_s: expected seconds that one adds to the steps of others. computing:
    seconds at the floor of its kernels that the peak bounds, not the bandwidth. others: sequences beside one,
    each of which begins once while that one makes `new` tokens.
    """

    alone: Seconds
    added_s: float
    computing: float
    others: int
    new: int


class LiveServer(NamedTuple):
    """What was measured of an engine's live servers.

    speed: the seconds of their kernels over those of a token.
    waits: share of the other sequences' prefills that a sequence waits for before its first token.
    first_s: seconds to a first token beside kernels: tokenizing, queues, the network.
    low, high: measured over expected time of a token, at the 10% and 90% quantile, the wider of both halves
    of the servers. first_low, first_high: the same of the first token. error: mean error of the time of a
    token on the half that was not fitted.
    """

    speed: float
    waits: float
    first_s: float
    low: float
    high: float
    first_low: float
    first_high: float
    error: float

    @classmethod
    def of(cls, constants: Mapping[str, Any] | None) -> LiveServer | None:
        """The constants that an engine's YAML states; None where no live server was measured."""
        return None if constants is None else cls(*(constants[name] for name in cls._fields))

    def widened(self, factor: float) -> LiveServer:
        """The same with ranges that are wider to either side."""
        return self._replace(
            low=self.low / factor,
            high=self.high * factor,
            first_low=self.first_low / factor,
            first_high=self.first_high * factor,
        )

    def of_kernels(self, kernels: Seconds) -> Seconds:
        """The time of a pass that nothing else is run beside."""
        return _ranged(kernels.floor, kernels.expected / self.speed, self.low, self.high)

    def of_token(self, steps: Seconds, prompts: Prompts) -> Seconds:
        """The time of a token, of that of the steps alone: the others' prompts run between steps, or in them.

        At the floor all else hides behind the products of the prompts, or they behind it.
        """
        others = prompts.others / prompts.new
        floor = max(steps.floor, others * prompts.computing)
        if not steps.is_calibrated:
            return Seconds.at_limit(floor)
        late = (1 - self.waits) * others * prompts.added_s
        return _ranged(floor, (steps.expected + late) / self.speed, self.low, self.high)

    def of_first(self, step: Seconds, token: Seconds, prompts: Prompts, rounds: float) -> Seconds:
        """The time to a first token: of kernels that run before it, of what is beside them, and of a queue.

        Of `rounds` times as many sequences as run at once the others wait until those before them end.
        """
        if not step.is_calibrated:
            return prompts.alone
        before = prompts.alone.expected + self.waits * prompts.others * prompts.added_s
        of_prompt = (before + step.expected) / self.speed + self.first_s
        queue = (rounds - 1) * (of_prompt + prompts.new * token.expected)
        return _ranged(prompts.alone.floor, of_prompt + queue, self.first_low, self.first_high)


def _ranged(floor: float, expected: float, low: float, high: float) -> Seconds:
    """Seconds with a range of shares of the expected ones; none is below the floor."""
    expected = max(floor, expected)
    least, most = max(floor, min(1.0, low) * expected), max(1.0, high) * expected
    return Seconds(floor, expected, least, most, is_calibrated=True)
