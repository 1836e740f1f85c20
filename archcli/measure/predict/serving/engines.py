"""Engines: what an inference engine takes beside its kernels, as one factor on its speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from archcli.measure.predict.times import KernelTime

EngineName = Literal["none", "vllm", "trtllm"]


class Engine(NamedTuple):
    """The tokens a second of an engine over those of its kernels alone: expected, and the range.

    `source` says where the factor is from; it is of live servers, whose batches change from step to step.
    """

    label: str
    speed: float
    low: float
    high: float
    source: str


ENGINES: Mapping[EngineName, Engine] = {
    "none": Engine("kernels alone", 1.0, 1.0, 1.0, "kernels one after the other, and nothing else"),
    "vllm": Engine("vLLM", 0.78, 0.78, 1.0, "live serving: about 0.78 of what its kernels allow"),
    "trtllm": Engine(
        "TensorRT-LLM",
        1.0,
        0.88,
        1.0,
        "live serving: 0.88 to 1.00 of what its kernels allow; a batch of fixed size has no scheduler",
    ),
}
"""Factors by name. A server that was measured against its kernels would give others."""


def with_engine(time: KernelTime, engine: Engine) -> KernelTime:
    """The seconds of an engine; the floor stays that of the kernels."""
    if time.expected is None or time.low is None or time.high is None:
        return time
    seconds = time.expected / engine.speed, time.low / engine.high, time.high / engine.low
    return KernelTime(time.floor, *seconds, time.bound_by)
