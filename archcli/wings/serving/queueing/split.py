"""Split pools: some devices compute prompts, and send their caches to others, which make the tokens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from archcli.wings.serving.memory.answers.tables import device_in_words
from archcli.wings.serving.queueing.load import Load, LoadedServer
from archcli.wings.serving.queueing.outcome import LoadOutcome, outcome_of
from archcli.wings.serving.queueing.pass_times import Figure
from archcli.wings.serving.queueing.requests import LoadRequest
from archcli.wings.serving.queueing.server import Served


@dataclass
class SplitServer(LoadedServer):
    """A server whose prompts and first tokens the devices of `prefill` compute.

    A prompt's cache is sent when it is whole, at `sent_gb_s` from each device: the network's rate.
    """

    prefill: LoadedServer = field(kw_only=True)
    sent_gb_s: float = field(kw_only=True)

    @property
    def devices(self) -> int:
        """Devices of both pools."""
        return self.question.plan.devices + self.prefill.question.plan.devices

    @property
    def title(self) -> str:
        """The question, and the devices of prompts."""
        first = self.prefill.question
        devices = device_in_words(first.device.memory._replace(n_devices=first.plan.devices))
        return f"{super().title}, prompts on {devices}"

    def sending_s(self, prompt: int) -> float:
        """Seconds to send the cache of a prompt: as the end with more bytes in a device takes."""
        rooms = (self.replicas.room, self.prefill.replicas.room)
        return max(room.of(prompt) * room.page_bytes for room in rooms) / (self.sent_gb_s * 1e9)

    def outcome(self, figure: Figure, load: Load | None = None) -> LoadOutcome:
        """What the load brings to both pools together."""
        requests = (load or self.load).requests
        prompts = [it._replace(new=1, number=number) for number, it in enumerate(requests)]
        first = self.prefill.replicas.run(prompts, self.prefill.times(figure))
        beside_s = 0.0 if figure == "floor" else self.replicas.beside_s
        computed = {it.request.number: it.first_s for server in first for it in server.ended}
        then = self.replicas.run(self._sent(requests, computed), self.times(figure))
        ends = {it.request.number: it.end_s for server in then for it in server.ended}
        ended = [
            Served(request, first_s=at + beside_s, end_s=ends.get(number, at) + beside_s)
            for number, request in enumerate(requests)
            for at in (computed[number],)
        ]
        return outcome_of(ended, [*then, *first], self.targets, self.replicas.room.pages)

    def _sent(self, requests: tuple[LoadRequest, ...], computed: dict[int, float]) -> list[LoadRequest]:
        """The requests as the second pool gets them, in the order in which they come."""
        sent = [
            request._replace(
                arrival_s=computed[number] + self.sending_s(request.prompt), is_received=True, number=number
            )
            for number, request in enumerate(requests)
            if request.new > 1
        ]
        return sorted(sent)

    def capacity(self, figure: Figure) -> float:
        """Requests a second that the pool that takes fewer can take."""
        received = tuple(request._replace(is_received=True) for request in self.load.requests)
        tokens = replace(self, load=self.load._replace(requests=received))
        return min(self.prefill.capacity(figure), LoadedServer.capacity(tokens, figure))
