"""The rows of a report as a pandas DataFrame, whole numbers exact."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from archcli.errors import ArchError, install

if TYPE_CHECKING:
    import pandas as pd

    from archcli.measure.report import Report

DTYPES = (
    ({int}, "Int64"),
    ({int, float}, "Float64"),
    ({bool}, "boolean"),
    ({str}, "string"),
)
"""Types of a column's values, and the dtype that holds them beside missing ones."""

EXACT = {"Int64": 2**63, "Float64": 2**53}
"""Up to where a dtype holds every whole number."""


def frame(report: Report) -> pd.DataFrame:
    """A row for each of the report's; ArchError where pandas is not installed."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        hint = f"report.rows holds the same records; for a DataFrame {install('pandas')}"
        raise ArchError("to_pandas needs pandas, which is not installed", hint) from None
    keys = dict.fromkeys((*report.keys, *(key for row in report.rows for key in row)))
    columns = {key: [row.get(key) for row in report.rows] for key in keys}
    return pd.DataFrame({key: pd.Series(values, dtype=_dtype(values)) for key, values in columns.items()})


def _dtype(values: Sequence[Any]) -> Any:
    """The narrowest dtype that holds the values as they are; else object."""
    types = {type(value) for value in values} - {NoneType}
    for known, dtype in DTYPES:
        if types and types <= known:
            largest = max((abs(value) for value in values if type(value) is int), default=0)
            return dtype if largest < EXACT.get(dtype, 2**63) else object
    return object
