"""The report of a profile that several processes ran: medians over them, and ranges of shares.

Intervals within a process are two to five times too narrow: its memory, where its threads ran and how fast
the processor was differ between processes, not between the passes of one.
"""

from archcli.measure.profile.reports.processes.report import repeated

__all__ = ["repeated"]
