"""Measure the layer of Ivanov et al. 2021 (arXiv:2007.00072), and print their table of operators.

usage: python benchmarks/ivanov [--dtype bf16] [--device cuda] [--format json] …

Sizes are the paper's where none are stated: a training pass over 8 sequences of 512 tokens, attention in its
three operators. `--set` changes the layer. `docs/ivanov.md` says how to read the table.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.measure.passes import checked_pass
from archcli.measure.report import Report
from archcli.render import rendered
from archcli.wings.running.api.profile import ProfileOptions, measured
from ivanov.report import with_table

LAYER = "ivanov"
"""The name of `presets/workloads/ivanov.yaml`."""


def settings() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--phase", default="train", choices=("train", "forward"))
    parser.add_argument("-b", "--batch-size", type=int, default=8)
    parser.add_argument("-s", "--seq-len", type=int, default=512)
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--attention", default="eager")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--threads", type=int)
    for flag in ("--hide-launch", "--no-ceilings", "--refresh"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--format", default="plain", choices=("plain", "md", "json"))
    return parser.parse_args()


def layer(**options: object) -> Report:
    """The profile of the layer with the paper's table, in its JSON as totals.ivanov."""
    overrides = options.pop("set", ())
    asking = ProfileOptions(LAYER, **options)  # type: ignore[arg-type]
    profiled = measured(lambda more: given(LAYER, [*overrides, *more]), asking)  # type: ignore[misc]
    if profiled.recording is None:
        raise ArchError("several variants have no table")
    counted = checked_pass(profiled.subject.model, asking.request())
    return with_table(profiled.subject.named(profiled.report), counted, profiled.recording)


def main() -> None:
    """Print the report; a problem is a line and exit code 2."""
    options = vars(settings())
    form = options.pop("format")
    try:
        sys.stdout.write(rendered(layer(**options), form))
    except ArchError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
