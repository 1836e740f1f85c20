"""Holds a calculator against the truth table. Needs Python's standard library alone.

    python truth/check.py TABLE.csv                   a row a model: `model`, then a column a field
    python truth/check.py --run 'my-tool {config}'    a command that prints a JSON object of fields

`{config}` becomes the path of a model's config.json, `{model}` its name. A cell that is empty, a field that
is not printed and a command that fails are "not answered". Prints each figure that differs, a line a field,
and the total. Exit code 0: none differs; 1: some do; 2: the input cannot be read.
"""

import argparse
import csv
import json
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
WITNESSES, CONFIGS = (HERE / "transformers.json", HERE / "llamacpp.json"), HERE / "configs.json"


def truth():
    """{model: {field: figure}} of all witnesses."""
    figures = {}
    for witness in WITNESSES:
        for model, fields in json.loads(witness.read_text())["figures"].items():
            figures.setdefault(model, {}).update(fields)
    return figures


def from_table(path):
    """{model: {field: text}} of a CSV, without empty cells."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or "model" not in rows[0]:
        raise ValueError(f"{path}: no column 'model'")
    if any(None in row for row in rows):
        raise ValueError(f"{path}: a row has more cells than there are columns")
    return {row.pop("model"): {field: cell for field, cell in row.items() if cell} for row in rows}


def from_command(line):
    """{model: {field: number}} that a command prints."""
    answers = {}
    for model, config in json.loads(CONFIGS.read_text()).items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "config.json"
            path.write_text(json.dumps(config))
            command = [
                word.replace("{config}", str(path)).replace("{model}", model) for word in shlex.split(line)
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        answers[model] = {} if done.returncode else json.loads(done.stdout)
        if not isinstance(answers[model], dict):
            raise TypeError(f"{model}: the command prints no JSON object")
    return answers


def compared(answers, figures):
    """({field: Counter of equal, differ, not answered}, [(model, field, answer, figure)] that differ)."""
    counts, differing = {}, []
    for model, fields in figures.items():
        for field, figure in fields.items():
            answer = answers.get(model, {}).get(field)
            outcome = "not answered" if answer is None else "equal" if float(answer) == figure else "differ"
            counts.setdefault(field, Counter())[outcome] += 1
            if outcome == "differ":
                differing.append((model, field, float(answer), figure))
    return counts, differing


def unknown(answers, figures):
    """What the answers name that the table does not have."""
    fields = {field for answered in figures.values() for field in answered}
    return sorted((set(answers) - set(figures)) | {name for row in answers.values() for name in row} - fields)


def main(arguments):
    """Print what differs; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("table", nargs="?", type=Path)
    parser.add_argument("--run")
    options = parser.parse_args(arguments)
    if (options.table is None) == (options.run is None):
        parser.error("name a TABLE.csv or a command by --run")
    figures = truth()
    try:
        answers = from_command(options.run) if options.run else from_table(options.table)
        if names := unknown(answers, figures):
            parser.error(f"the truth table has no {', '.join(names)}")
        counts, differing = compared(answers, figures)
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    for model, field, answer, figure in differing:
        print(f"{model} {field}: {answer:,.0f}, truth {figure:,} ({100 * (answer - figure) / figure:+.3g}%)")
    for field, outcomes in counts.items():
        print(f"{field}: " + ", ".join(f"{outcomes[name]} {name}" for name in sorted(outcomes)))
    total = sum(counts.values(), Counter())
    print(f"total: {total['equal']} equal, {total['differ']} differ, {total['not answered']} not answered")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
