"""The report of a profile that the ranks of a plan made together: medians over them, and the slowest.

Ranks differ in their part of the vocabulary, in what the experts of their replica are given, and in how long
they wait for each other.
"""

from archcli.measure.profile.reports.ranks.joined import RankDocument, RunOfRanks
from archcli.measure.profile.reports.ranks.report import of_ranks

__all__ = ["RankDocument", "RunOfRanks", "of_ranks"]
