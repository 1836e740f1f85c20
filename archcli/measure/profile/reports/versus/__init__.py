"""The report of variants timed in turn: how much longer each takes than the first.

`variant` joins costs and times, `lines` compares them by class and operator, `ratios` takes ratios within
rounds, `tables` and `notes` show them, and `report` puts it together.
"""

from archcli.measure.profile.reports.versus.report import versus
from archcli.measure.profile.reports.versus.variant import MeasuredVariant

__all__ = ["MeasuredVariant", "versus"]
