"""presets: `archcli list` in Python."""

from __future__ import annotations

from dataclasses import dataclass

from archcli.api.asking.options import Sort, Where
from archcli.api.asking.question import asks
from archcli.load.presets import preset_records
from archcli.measure.report import Report
from archcli.measure.survey.columns import COLUMNS
from archcli.measure.survey.presets import list_models


@dataclass(frozen=True)
class PresetsOptions:
    """Options of `archcli list`."""

    where: Where = ()
    sort: Sort = None


@asks(PresetsOptions)
def presets(options: PresetsOptions) -> Report:
    """The presets with their size, attention and cache per token: the report of `archcli list`.

    `where` are conditions on any column of `survey`, such as "params>10B", all of which must hold; `sort` is
    a column, "params:desc" for the largest first.

    Example: `presets(where=["series=deepseek"], sort="released").rows[0]["name"]` is deepseek-llm-67b.
    """
    return list_models(preset_records(COLUMNS), options.where, options.sort)
