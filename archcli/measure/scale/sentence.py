"""The answer of `archcli scale` in words: the shape, its tokens and FLOPs, and the days they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.measure.memory.answers.wording import device_in_words
from archcli.measure.predict.answers.limits import three_figures
from archcli.measure.scale.solve import ScaleAnswer, ScaleProblem

UNITS = ((10**12, "T"), (10**9, "B"), (10**6, "M"))


def sentence(problem: ScaleProblem, answer: ScaleAnswer, totals: Mapping[str, Any]) -> str:
    """The answer in words.

    `3.04B parameters: d_model 2,560, 28 layers. The law besiroglu asks for 65.4B tokens, 21.5 a parameter
    (1.12e+21 FLOPs).`
    """
    shape = f"d_model {totals['d_model']:,}, {totals['n_layers']:,} layers"
    return f"{_short(totals['params'])} parameters: {shape}. {', '.join(_training(problem, answer, totals))}."


def _training(problem: ScaleProblem, answer: ScaleAnswer, totals: Mapping[str, Any]) -> Iterator[str]:
    """The tokens and who asks for them, then the time on the devices."""
    settings = problem.settings
    asks = f"The law {settings.law} asks for" if settings.params is not None else "The budget pays for"
    of_which = (
        "a parameter" if answer.cost.active_params == answer.best.shape.params else "an active parameter"
    )
    per_param = f"{totals['tokens_per_param']:,.1f} {of_which}"
    yield f"{asks} {_short(totals['tokens'])} tokens, {per_param} ({totals['flops']:.3g} FLOPs)"
    if answer.step is None:
        return
    devices = device_in_words(answer.step.question.device.memory)
    yield f"{_days(totals['days'])} on {devices}{'' if answer.step.fits else ', into which it does not fit'}"


def _days(days: Mapping[str, float | None]) -> str:
    """As expected with the range, or at least those of the device's peaks."""
    known = {name: three_figures(value) for name, value in days.items() if value is not None}
    if "expected" not in known:
        return f"at least {known['floor']} days"
    return f"{known['expected']} days ({known['low']} to {known['high']})"


def _short(number: int) -> str:
    size, unit = next((pair for pair in UNITS if number >= pair[0]), (1, ""))
    return f"{three_figures(number / size)}{unit}"
