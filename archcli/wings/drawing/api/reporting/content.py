"""The page of `archcli report`, and the data that its script reads."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from archcli.errors import ArchError
from archcli.modules.spec.request import usual_tokens
from archcli.plugins import imported
from archcli.wings.drawing.api.draw import DrawOptions, drawing_of
from archcli.wings.drawing.api.reporting.options import ReportOptions
from archcli.wings.drawing.api.reporting.speeds import KEYS, Step, speeds
from archcli.wings.drawing.api.reporting.standing import findings, strips
from archcli.wings.drawing.api.reporting.subjects import ReportedModel
from archcli.wings.drawing.api.reporting.whole import parts_of
from archcli.wings.drawing.load import page_file
from archcli.wings.drawing.picture.architecture.page.sheet import redrawn
from archcli.wings.drawing.picture.architecture.redraw import Redrawn
from archcli.wings.drawing.report.page import model_code, page
from archcli.wings.serving.recorded.classes import FRAMEWORK, UNATTRIBUTED, label_of
from archcli.wings.serving.recorded.conditions import conditions_of, warnings_of
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.closed.addresses import CACHE_DTYPES, Address
from archcli.wings.shapes.symbolic.closed.calculator import Calculator, calculator, scripts
from archcli.wings.shapes.symbolic.closed.free import MOST_DIFFERENT, different_layers
from archcli.wings.shapes.symbolic.closed.mathml import formulas

CONTEXT = 2048
"""Tokens in the cache at first, of a model without max_seq_len."""
MOST_CHARACTERS = 400_000
"""A page that is larger leaves out the script of its drawing."""
HUES = {
    "attention": "attention",
    "attention_proj": "attention",
    "attention_scores": "attention",
    "experts": "experts",
    "router": "experts",
    "shared_experts": "shared",
    "ffn": "dense",
    "lm_head": "head",
}
"""The hue of a component by its name."""


def page_of(models: Sequence[ReportedModel], options: ReportOptions, step: Step = lambda _: None) -> str:
    """The page on models; `step` hears what is being computed.

    Raises ArchError where sympy is missing, or a device does not exist.
    """
    required("sympy")
    known = []
    for model in models:
        step(f"formulas of {model.subject.name}")
        known.append(calculator(model.subject.model, model.again))
    step("drawing")
    drawing = _drawing(models, options)
    drawn = [Address(figure.command, figure.path, figure.key) for figure in drawing.figures]
    # the drawing of several models has no script and no figures
    records = [model.record(drawn) for model in known]
    codes = [_code(model, record) for model, record in zip(known, records, strict=True)]
    data = _data(models, options, records, step) | {
        "drawn": [figure.value for figure in drawing.figures],
        "redraws": bool(drawing.script),
    }
    title, subtitle = options.title or data["names"], _subtitle(models)
    whole = page(title, subtitle, drawing.svg, data, model_code(codes, drawing.script), page_file)
    if len(whole) <= MOST_CHARACTERS or not drawing.script:
        return whole
    # a drawing of very many shapes stands still: its script would be as large as all else
    still = {**data, "redraws": False}
    return page(title, subtitle, drawing.svg, still, model_code(codes, ""), page_file)


def _drawing(models: Sequence[ReportedModel], options: ReportOptions) -> Redrawn:
    """The drawing; of one model without towers with the script that redraws it."""
    shown = DrawOptions("params" if options.profile is None else "time", options.profile)
    drawing = drawing_of([model.subject for model in models], shown)
    if len(models) > 1 or options.profile is not None or drawing.anatomies[0].towers:
        return Redrawn(drawing.svg(), "", ())
    return redrawn(drawing.anatomies[0])


def _code(known: Calculator, record: dict[str, Any]) -> str:
    """The JavaScript of a model's closed forms and conditions."""
    # the script holds the forms: the record, which becomes JSON, does not repeat them
    code = scripts(known, record)
    del record["places"]
    return code


def _data(
    models: Sequence[ReportedModel], options: ReportOptions, records: list[dict[str, Any]], step: Step
) -> dict[str, Any]:
    subjects = [model.subject for model in models]
    sizes = _pass(models)
    numbers = range(1, len(models) + 1)
    return {
        "names": ", ".join(subject.name for subject in subjects),
        "made": _origin(models),
        "note": options.note or "",
        "pass": {name: str(size) for name, size in sizes.items()},
        "dtypes": CACHE_DTYPES,
        "models": [
            _model(number, model, record, sizes)
            for number, model, record in zip(numbers, models, records, strict=True)
        ],
        "speeds": [
            {"number": number, "model": model.subject.name, **row}
            for number, model in zip(numbers, models, strict=True)
            if model.subject.model.caches and (options.device or not too_different(model))
            for row in speeds(model.subject, options.device, options.engine, step)
        ],
        "answer": KEYS,
        "engine": options.engine or "",
        "strips": strips(subjects),
        "parts": parts_of(models),
        "measured": _measured(options),
        "words": _captions(models, options),
    }


def _pass(models: Sequence[ReportedModel]) -> dict[str, int]:
    """The sizes of the first pass: the longest that all models were trained for, of a forward up to 2,048."""
    contexts = [model.subject.model.max_seq_len or CONTEXT for model in models]
    return {"context": max(min(contexts), 2), "batch_size": 1, "seq_len": int(usual_tokens(min(contexts)))}


def _model(
    number: int, model: ReportedModel, record: dict[str, Any], sizes: dict[str, int]
) -> dict[str, Any]:
    named = {key: [_titled(entry) for entry in record[key]] for key in ("groups", "components")}
    subject = model.subject
    return {
        **record,
        **named,
        "number": number,
        "name": subject.name,
        "asked": model.shell_word,
        "sets": subject.overrides,
        "findings": findings(model),
        "formulas": formulas(subject.model, sizes["batch_size"], sizes["seq_len"], sizes["context"]),
    }


def _titled(entry: dict[str, Any]) -> dict[str, Any]:
    name = entry["name"]
    hue = HUES.get(name) or ("recurrent" if re.search("recurren|scan|state|conv", name) else "plain")
    return {**entry, "title": name.replace("_", " "), "hue": hue}


def _subtitle(models: Sequence[ReportedModel]) -> str:
    left_out = "".join(f" · {it}" for it in map(too_different, models) if it)
    return f"Counted from one forward; every figure has its command{left_out}"


def too_different(model: ReportedModel) -> str:
    """What the page leaves out of a model with very many different layers; empty for any other."""
    number = different_layers(model.subject.model)
    if number <= MOST_DIFFERENT:
        return ""
    what = f"of {number:,} different layers no size can be changed, and no speed is predicted"
    return f"{model.subject.name}: {what} unless a device is named"


def _origin(models: Sequence[ReportedModel]) -> str:
    """What a review asks of a page: the source of each model, the version of archcli, and the day."""
    sources = [f"{it.subject.source}{_published(it)}" for it in models]
    version = imported("archcli:__version__")  # by name: the package itself stands above all folders
    return " · ".join([*dict.fromkeys(sources), f"archcli {version}", _today()])


def _published(model: ReportedModel) -> str:
    """Where a preset's figures are from."""
    source = model.subject.model.source
    return f" ({source})" if source and source != model.subject.source else ""


def _today() -> str:
    """The day in UTC, or that of SOURCE_DATE_EPOCH, with which two pages are equal byte for byte."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is not None and not epoch.isdecimal():
        raise ArchError(f"SOURCE_DATE_EPOCH is {epoch!r}", "seconds since 1970: 1767225600")
    now = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    return now.date().isoformat()


def _profile(options: ReportOptions) -> Any:
    from archcli.wings.serving.api.known_device.saved_profile import read_profile

    return None if options.profile is None else read_profile(Path(options.profile))


def _measured(options: ReportOptions) -> list[dict[str, Any]]:
    """Shares of the wall time of a profile by class, the largest first, and last what no operation took."""
    profile = _profile(options)
    if profile is None:
        return []
    shares = [
        {"name": label_of(name), "share": of["time_share"], "rest": name in (FRAMEWORK, UNATTRIBUTED)}
        for name, of in profile["totals"]["by_class"].items()
    ]
    return sorted((it for it in shares if it["share"]), key=lambda it: (it["rest"], -it["share"]))


def _timed(options: ReportOptions) -> dict[str, str]:
    """What was measured: the whole time of a pass, its phase, tokens and device; why it is not reliable."""
    profile = _profile(options)
    if profile is None:
        return {"measured": "", "unreliable": ""}
    conditions, file = conditions_of(profile), Path(str(options.profile)).name
    return {
        "measured": f"Shares of the whole wall time: {conditions}; {file}.",
        "unreliable": "" if profile["totals"]["reliable"] else " ".join(warnings_of(profile)),
    }


def _captions(models: Sequence[ReportedModel], options: ReportOptions) -> dict[str, str]:
    kinds = "Thick: this model. Thin: the same heads with other kinds of attention."
    return {
        "strips": "A dot for each series of presets, a line at the median. Of the model as it is.",
        "cache": kinds if len(models) == 1 and models[0].subject.model.caches else "",
        **_timed(options),
    }
