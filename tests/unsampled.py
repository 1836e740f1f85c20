"""Run the cases of large tables that no stage of the tests runs, and note the result of each table.

    python tests/unsampled.py                                # all of them: hours
    python tests/unsampled.py tests/launches -k "prefill"    # arguments of pytest choose some

The results stand in tests/unsampled.json: of each table how many cases ran, which of them failed, and with
which archcli. A table of which only some cases are chosen keeps its old line.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from archcli import __version__

RESULTS = Path(__file__).with_suffix(".json")


class Results:
    """A plugin that counts the cases of each test function."""

    def __init__(self):
        self.cases, self.failed = defaultdict(set), defaultdict(set)

    def pytest_runtest_logreport(self, report):
        function, _, case = report.nodeid.partition("[")
        self.cases[function].add(case.removesuffix("]"))
        if report.failed:
            self.failed[function].add(case.removesuffix("]"))

    def lines(self):
        """What is known of each table that ran."""
        return {
            function: {"archcli": __version__, "cases": len(cases), "failed": sorted(self.failed[function])}
            for function, cases in self.cases.items()
        }


def main(arguments):
    """Run pytest on the unsampled cases, and renew the lines of the tables that ran whole."""
    results = Results()
    code = pytest.main(["-q", "-m", "unsampled", "--unsampled", *arguments], plugins=[results])
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    whole = {} if "-k" in arguments else results.lines()
    RESULTS.write_text(json.dumps(dict(sorted({**kept, **whole}.items())), indent=1) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
