"""The report of a profile of one model: by class, by operator, how far to trust it, and notes.

`figures` takes shares and rates, `tables` and `notes` show them, and `report` puts it together.
"""

from archcli.measure.profile.reports.one.report import profile_of

__all__ = ["profile_of"]
