"""Explanations of a measured time above the expected one: other ways to run, and slower parts.

Another way to run it (unfused attention, no compiler, no engine) is predicted as a question of its own. A
part of the prediction (communication, computing, launches) may take longer, up to a limit stated here. That
it could explain a gap does not say that it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import fsum
from typing import NamedTuple

from archcli.errors import ArchError
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.wings.serving.predict.answers.limits import duration
from archcli.wings.serving.predict.answers.question import PredictQuestion, check_prediction
from archcli.wings.serving.predict.prediction import Prediction
from archcli.wings.serving.predict.rank.host import EAGER
from archcli.wings.serving.predict.times import GROUPED, Seconds
from archcli.wings.serving.recorded.classes import TimeClass

LEAST_PART = 0.1
"""The least share of the gap for an explanation to be shown."""
LOWEST_CLOCK = 0.5
"""The lowest clock of a device in practice, by power limit or heat, as a share."""
SLOWEST_LINK = 0.1
"""The rate of a slower path between devices as a share: PCIe in place of NVLink."""
HALF = 0.5
"""A rule of thumb for what nobody measured: parts that take twice as long, and no more."""
NOT_PREDICTED = {
    "train": "reading data, logging, checkpoints, evaluation",
    "forward": "Python around the model, copies to the device",
    "prefill": "tokenizing, a queue, copies to the device",
    "decode": "a queue, tokenizing, sampling, the network",
    "serve": "a queue, tokenizing, sampling, the network",
}
OtherWay = tuple[str, str, PredictQuestion]
"""Another way to run: its description, its option, and the question with it."""
IN_RAM = "layers left in RAM (-ngl), "


class Explanation(NamedTuple):
    """An explanation of a gap: its description, added seconds, and the option that predicts it.

    The seconds of a faster way are negative.
    """

    what: str
    seconds: float
    option: str = ""

    @property
    def sentence(self) -> str:
        """`attention step by step (+103 ms: --attention eager)`."""
        option = f": {self.option}" if self.option else ""
        sign = "+" if self.seconds >= 0 else "-"
        return f"{self.what} ({sign}{duration(abs(self.seconds))}{option})"

    def record(self) -> dict[str, object]:
        """The explanation by JSON's keys."""
        return {"what": self.what, "time_s": self.seconds, "option": self.option or None}


class Gap(NamedTuple):
    """A pass that took longer than expected: the question, its prediction, and the measured seconds.

    late_s: expected seconds that a token waits for prefills of other sequences.
    """

    question: PredictQuestion
    prediction: Prediction
    measured_s: float
    late_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds beyond the expected ones, or beyond the floor."""
        return self.measured_s - self.prediction.seconds.expected

    @property
    def alone_s(self) -> float:
        """Expected seconds without waiting for other sequences."""
        return self.prediction.seconds.expected - self.late_s

    def explanations(self) -> list[Explanation]:
        """Explanations, the most seconds first; of equals the one with an option first."""
        explained = [*self._other_ways(), *self._longer_parts()]
        worth = (it for it in explained if it.seconds >= LEAST_PART * self.seconds)
        return sorted(worth, key=lambda it: (-min(it.seconds, self.seconds), not it.option))

    def _other_ways(self) -> Iterator[Explanation]:
        """Other ways to run the same, each predicted; none slower than measured."""
        for what, option, seconds in _predicted(_changed(self.question)):
            if seconds.low <= self.measured_s - self.late_s:
                yield Explanation(what, seconds.expected - self.alone_s, option)

    def savings(self) -> list[Explanation]:
        """Faster ways to run the same, each predicted; none slower than measured."""
        by_seconds = [
            Explanation(what, seconds.expected - self.alone_s, option)
            for what, option, seconds in _predicted(_faster(self.question))
            if seconds.low <= self.measured_s and seconds.expected < self.alone_s
        ]
        return sorted(by_seconds, key=lambda it: it.seconds)

    def _longer_parts(self) -> Iterator[Explanation]:
        """Parts of the prediction that may take longer, each by up to the gap, within its bounds."""
        rows = self.prediction.rows
        yield from self._sent()
        yield from self._launched()
        computed = fsum(row.seconds.expected for row in rows if row.bound_by == "compute")
        yield from self._slower("a clock at {share} by power or heat", computed, LOWEST_CLOCK)
        routed = fsum(row.seconds.expected for row in rows if _is_routed(row.kernel, row.op_class))
        yield from self._slower("experts that get {times} their share of the tokens", routed, HALF)
        yield from self._slower("a bubble {times} as long", self.prediction.bubble_s, HALF)
        yield from self._slower("{times} as many prefills of others, or as long", self.late_s, HALF)

    def _slower(self, what: str, part_s: float, least: float) -> Iterator[Explanation]:
        """A part slowed to explain the gap, to a share of `least` at the lowest; `what` names it."""
        if part_s > 0:
            share = max(least, part_s / (part_s + self.seconds))
            text = what.format(share=f"{100 * share:.0f}%", times=f"{1 / share:.1f} times")
            yield Explanation(text, part_s / share - part_s)

    def _sent(self) -> Iterator[Explanation]:
        """Communication hidden by nothing, and communication over a slow path."""
        sent = self.prediction.communication
        names = " and ".join(dict.fromkeys(part.timed.collective.name.replace("_", "-") for part in sent))
        hidden = fsum(part.most_s - part.least_s for part in sent)
        if hidden > 0:
            yield Explanation(f"{names} that no computing hides", hidden)
        under_way = fsum(part.timed.time_s for part in sent)
        yield from self._slower(
            f"{names} at {{share}} of the links' rate, as over PCIe", under_way, SLOWEST_LINK
        )

    def _launched(self) -> Iterator[Explanation]:
        """A host that takes longer for each launch, at most the high end of its range."""
        timing = self.question.timing
        if timing.whole_runs is not None:
            return
        rows = [row for row in self.prediction.rows if row.op_class != TimeClass.FRAMEWORK]
        host, number = timing.host or EAGER, sum(row.times for row in rows)
        most = fsum(row.times * host.launch(row.stage).high for row in rows)
        launching = min(most, self.measured_s - self.late_s)
        seconds = launching - self.alone_s
        if seconds > 0:
            graphs = " without CUDA graphs" if timing.host is None else ""
            per_launch = f"{1e6 * launching / number:.0f} µs"
            yield Explanation(
                f"a host that takes {per_launch} for each of {number:,.0f} launches{graphs}", seconds
            )


def _is_routed(kernel: str, op_class: str) -> bool:
    return kernel == GROUPED or op_class == TimeClass.ROUTING


def _predicted(ways: Iterable[OtherWay]) -> Iterator[tuple[str, str, Seconds]]:
    """(description, option, seconds) of each other way to run that can be predicted."""
    for what, option, question in ways:
        try:
            check_prediction(question)
            yield what, option, question.answer().prediction.seconds
        except ArchError:  # some models and plans run in one way alone
            continue


def _faster(question: PredictQuestion) -> Iterator[OtherWay]:
    """Ways to run the same pass that launch or read less."""
    if question.settings.served:
        return
    if question.settings.attention == "eager":
        yield "attention in one kernel", "--attention flash", question.changed(attention="flash")
    if not question.options.compiled:
        compiled = replace(question, options=replace(question.options, compiled=True))
        yield "kernels that a compiler fused", "--compile", compiled


def _changed(question: PredictQuestion) -> Iterator[OtherWay]:
    """Ways to run the same pass that launch or read more."""
    options, settings = question.options, question.settings
    if settings.served:
        # a device whose constants are of whole runs has those of one engine
        if question.phase != "serve" and question.device.timing.whole_runs is None:
            eager = replace(question, live=None, options=replace(options, engine="none", kv_dtype=None))
            yield "eager torch in place of an engine", "--engine none", eager.changed(engine=NO_ENGINE)
        return
    if options.compiled and (settings.trainer is None or not settings.trainer.fuses):
        eager = replace(question, options=replace(options, compiled=False))
        yield "kernels that nothing fused", "without --compile", eager
    if settings.attention != "eager":
        yield "attention step by step", "--attention eager", question.changed(attention="eager")


def not_predicted(question: PredictQuestion) -> str:
    """Parts without a prediction: `reading data, logging`."""
    of_engine = IN_RAM if question.options.engine == "llamacpp" else ""
    return of_engine + NOT_PREDICTED[question.phase]


def way_to_look(question: PredictQuestion) -> str:
    """A sentence on the command that measures the pass by operation on that machine."""
    settings, phase = question.settings, question.phase
    if question.options.engine == "llamacpp":  # whose kernels are no operations of torch
        return ""
    if phase == "serve":
        return " --phase decode and --phase prefill ask for the parts apart."
    tokens = settings.tokens(question.model)
    length = f"--past {tokens}" if phase == "decode" else f"-s {tokens}"
    device = "cuda" if settings.backend == "cuda" else "cpu"
    options = f"--phase {phase} -b {settings.batch_size} {length} --dtype {settings.dtype} --device {device}"
    without = ", without the engine" if settings.served else ""
    return f" On that machine `archcli profile MODEL {options}` measures it by operation{without}."
