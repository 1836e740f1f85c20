"""The table of Ivanov et al. 2021 (arXiv:2007.00072), counted from the rows and measured here.

`table` says which parts of which rows are an operator of the paper, `counting` adds them up and joins what
was measured, `report` makes the JSON and the tables.
"""

from archcli.measure.profile.ivanov.report import with_table

__all__ = ["with_table"]
