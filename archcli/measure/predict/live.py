"""LiveServer: what an engine's live servers take beside their kernels, and the range that held them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archcli.measure.predict.times import Seconds


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
    def stated(cls, constants: Mapping[str, Any] | None) -> LiveServer | None:
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

    def of_token(self, floor: float, expected: float) -> Seconds:
        """The time of a token with its range."""
        return _ranged(floor, expected, self.low, self.high)

    def of_first(self, floor: float, before: float) -> Seconds:
        """The time to a first token, of the kernels that run before it and what is beside them."""
        return _ranged(floor, before + self.first_s, self.first_low, self.first_high)


def _ranged(floor: float, expected: float, low: float, high: float) -> Seconds:
    """Seconds with a range of shares of the expected ones; none is below the floor."""
    expected = max(floor, expected)
    least, most = max(floor, min(1.0, low) * expected), max(1.0, high) * expected
    return Seconds(floor, expected, least, most, is_calibrated=True)
