"""A make-believe card: a queue of work on a timeline of its own, in place of torch.cuda.

Times are nanoseconds, a cycle is one.
"""

from contextlib import nullcontext
from types import SimpleNamespace


class Card:
    """What the host has reached, and until when the device is busy.

    `slept` are the cycles of each kernel that waited.
    """

    def __init__(self):
        self.host = self.device = 0
        self.slept = []

    def launch(self, costs, runs):
        """Work of `runs`, which takes the host `costs` to launch."""
        self.host += costs
        self.device = max(self.device, self.host) + runs

    def synchronize(self, device=None):
        self.host = max(self.host, self.device)

    def sleep(self, cycles):
        self.slept.append(cycles)
        self.launch(0, cycles)

    def event(self, *, enable_timing):
        """Says when the device comes to it."""
        one = SimpleNamespace(at=None)

        def record():
            one.at = self.device = max(self.device, self.host)

        one.record, one.elapsed_time = record, lambda other: (other.at - one.at) / 1e6
        return one

    def instead_of_torch(self, monkeypatch):
        """Let torch.cuda be this one."""
        monkeypatch.setattr("torch.cuda.synchronize", self.synchronize)
        monkeypatch.setattr("torch.cuda.device", lambda device: nullcontext())
        monkeypatch.setattr("torch.cuda.Event", self.event)
        monkeypatch.setattr("torch.cuda._sleep", self.sleep)
        return self

    def instead_of_time(self, monkeypatch):
        """Let the host's clock be this one's."""
        monkeypatch.setattr(
            "archcli.wings.running.runtime.profile.clock.time.perf_counter", lambda: self.host / 1e9
        )
        return self
