"""LiveServer: what an engine's live servers take beside their kernels, and the ranges that held them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from archcli.wings.serving.predict.times import Seconds

Load = Literal["one", "several", "full"]
"""One sequence, several at once, and more than run at once."""
TOKEN, FIRST, WHOLE, PASS = "token", "first", "whole", "prompt"
"""What is timed: a token, the first one, all of the sequences, and a prompt alone."""
WIDEST = 10.0
"""How wide a range may be, its high end over its low one: one that is wider says nothing."""


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
    kinds: by what is timed, the load and the model, `token several mixture`: `slower`, the factor on the
    time, and `low` and `high`, between which 80% of measured over expected lie while the device is held out.
    maker: of the device, where it is not that of the kernels' constants; its kinds begin with it.
    of_model: dense, mixture, or latent for a mixture with latent attention.
    widened: the factor by which ranges are wider to either side.
    """

    speed: float
    waits: float
    first_s: float
    kinds: Mapping[str, Mapping[str, float]]
    maker: str = ""
    of_model: str = "dense"
    widened: float = 1.0

    @classmethod
    def of(cls, facts: Mapping[str, Any], maker: str, of_model: str) -> LiveServer | None:
        """The constants that an engine's YAML states; None where no live server was measured."""
        live = facts.get("live")
        if live is None:
            return None
        kinds = facts.get("kinds", {})
        return cls(live["speed"], live["waits"], live["first_s"], kinds, maker, of_model)

    def error(self, what: str, load: Load) -> float | None:
        """The median error of a kind on devices that were held out; None for one that was not measured."""
        kind = self._kind(what, load)
        return None if kind is None else kind["error"]

    def of_kernels(self, kernels: Seconds, what: str, load: Load) -> Seconds:
        """The time of a pass that nothing else is run beside."""
        return self._ranged(kernels.floor, kernels.expected / self.speed, what, load)

    def of_sequences(
        self, kernels: Sequence[Seconds], prompts: Prompts, rounds: float, load: Load
    ) -> tuple[Seconds, Seconds, Seconds]:
        """The time to a first token, that of each other, and that of all sequences.

        `kernels`: those of the first token, of one in the mean, and of all. Of `rounds` times as many
        sequences as run at once the others wait until those before them end.
        """
        step, steps, whole = kernels
        token_s = self._token_s(steps, prompts)
        of_prompt = self._first_s(step, prompts)
        of_round = of_prompt + prompts.new * token_s
        first_s = of_prompt + (rounds - 1) * of_round
        # at the floor all else hides behind the products of the others' prompts, or they behind it
        least = max(steps.floor, prompts.others / prompts.new * prompts.computing)
        if not steps.is_calibrated:
            floors = Seconds.at_limit(prompts.alone.floor), Seconds.at_limit(least)
            return *floors, Seconds.at_limit(whole.floor)
        return (
            self._ranged(prompts.alone.floor, first_s, FIRST, load),
            self._ranged(least, token_s, TOKEN, load),
            self._ranged(whole.floor, first_s + prompts.new * token_s, WHOLE, load),
        )

    def _token_s(self, steps: Seconds, prompts: Prompts) -> float:
        """Expected seconds of a token: the others' prompts run between steps, or in them."""
        late = (1 - self.waits) * prompts.others / prompts.new * prompts.added_s
        return (steps.expected + late) / self.speed

    def _first_s(self, step: Seconds, prompts: Prompts) -> float:
        """Expected seconds to a first token: of kernels that run before it, and of what is beside them."""
        before = prompts.alone.expected + self.waits * prompts.others * prompts.added_s
        return (before + step.expected) / self.speed + self.first_s

    def _kind(self, what: str, load: Load) -> Mapping[str, float] | None:
        """The kind; of all sequences else that of a token, of a prompt alone that of a first token.

        None where it was not measured, or scattered too much.
        """
        for timed in {WHOLE: (WHOLE, TOKEN), PASS: (PASS, FIRST)}.get(what, (what,)):
            # nobody timed a request alone: it waits for less than one of several, and has their range
            under = "several" if (timed, load) == (FIRST, "one") else load
            name = " ".join(filter(None, (self.maker, timed, under, self.of_model)))
            if name in self.kinds:
                kind = self.kinds[name]
                return kind if kind["high"] <= WIDEST * kind["low"] else None
        return None

    def _ranged(self, floor: float, expected: float, what: str, load: Load) -> Seconds:
        """Seconds with the range of a kind; the floor alone for one that nobody measured."""
        kind = self._kind(what, load)
        if kind is None:
            return Seconds.at_limit(floor)
        expected = max(floor, kind["slower"] * expected)
        low, high = kind["low"] / self.widened, kind["high"] * self.widened
        return Seconds(floor, expected, max(floor, low * expected), high * expected, is_calibrated=True)
