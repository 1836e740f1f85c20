"""Many rows in one test: all of them are tried, and it fails with the list of those that failed."""

import inspect
from functools import wraps
from itertools import product
from random import Random

import pytest

FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)
SHOWN = 60
"""Characters of a value in the title of its row."""


def every_row(names, rows, ids=None):
    """Run a test for every row, like `pytest.mark.parametrize`, as one case.

    For rows that take milliseconds: a case of pytest's own costs more than they do. Tables may be stacked.
    Fixtures are those of the one case, so rows share `tmp_path` and what they patch.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    rows = [tuple(row) if len(columns) > 1 else (row,) for row in rows]
    assert rows, "a table without rows shows nothing"
    titles = ids if callable(ids) or ids is None else [str(one) for one in ids]

    def decorate(test):
        inner = getattr(test, "table", (test, [], []))
        return one_case(inner[0], [*columns, *inner[1]], [(titles, rows), *inner[2]])

    return decorate


def sampled_rows(names, rows, quick, lots=1):
    """Like `every_row` in `lots` cases of the second stage, and one of the first with so many seeded rows."""
    order = Random(str(names)).sample([*rows], len(rows))  # noqa: S311 - the same rows in every run
    cases = [pytest.param(order[:quick], id="sample")]
    rest = [order[quick + i :: lots] for i in range(lots)]
    cases += [pytest.param(lot, id=f"lot{i}", marks=pytest.mark.long) for i, lot in enumerate(rest) if lot]

    def decorate(test):
        @wraps(test)
        def case(lot, **fixtures):
            every_row(names, lot)(test)(**fixtures)

        fixtures = inspect.signature(every_row(names, rows)(test)).parameters.values()
        lot = inspect.Parameter("lot", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        case.__signature__ = inspect.Signature([lot, *fixtures])
        return pytest.mark.parametrize("lot", cases)(case)

    return decorate


def one_case(test, columns, tables):
    """The test of all rows, which pytest sees with its fixtures alone."""

    @wraps(test)
    def case(**fixtures):
        failed = {}
        for numbered in product(*(enumerate(rows) for _, rows in tables)):
            values = [value for _, row in numbered for value in row]
            try:
                test(**dict(zip(columns, values, strict=True)), **fixtures)
            except FAILURES as failure:
                titles = (title(ids, *one) for (ids, _), one in zip(tables, numbered, strict=True))
                failed["-".join(titles)] = failure
        if failed:
            told = "\n".join(f"[{name}] {type(why).__name__}: {why}" for name, why in failed.items())
            raise AssertionError(f"{len(failed)} rows fail\n{told}") from next(iter(failed.values()))

    case.table = test, columns, tables
    wanted = inspect.signature(test).parameters.values()
    case.__signature__ = inspect.Signature([one for one in wanted if one.name not in columns])
    return case


def title(ids, number, row):
    """What names a row where it fails: its id, or what its values begin with."""
    if isinstance(ids, list):
        return ids[number]
    try:
        return "-".join(str((ids or str)(value))[:SHOWN] for value in row)
    except ValueError:  # a number of more digits than Python prints
        return f"row {number}"
