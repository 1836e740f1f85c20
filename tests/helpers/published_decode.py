"""Published times of a token on cards that borrow constants, beside what is predicted."""

import csv
import json
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import archcli
from engine_tables import table

PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "measured" / "speed" / "borrowed.csv"
ENDS = ("floor", "expected", "low", "high")


class PublishedToken(NamedTuple):
    """A row: the model with its format, device, sequences, and ms of a token, measured and predicted."""

    model: str
    device: str
    sequences: str
    measured: float
    predicted: dict


def published_tokens():
    """The rows of the table, in its order."""
    with PUBLISHED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        asked = json.loads(row["ask"])
        time = archcli.predict(row["model"], **asked).totals["time_s"]
        predicted = {name: 1e3 * time[name] for name in ENDS}
        name = f"`{row['model']}` {asked.get('dtype', '')}".rstrip()
        measured, sequences = float(row["measured"]), str(asked["batch_size"])
        yield PublishedToken(name, asked["device"], sequences, measured, predicted)


def borrowed_decode_table():
    """The rows, and their mean error."""
    tokens = list(published_tokens())
    cells = [
        [one.model, f"`{one.device}`", one.sequences, *map(shown, (one.measured, *one.predicted.values()))]
        for one in tokens
    ]
    error = mean(abs(one.predicted["expected"] / one.measured - 1) for one in tokens)
    heads = ["model", "device", "sequences", "measured", "limit", *ENDS[1:]]
    return f"{table(heads, cells, texts=2)}\n\nMean error of the {len(tokens)}: {error:.1%}."


def shown(milliseconds):
    """Three digits."""
    return f"{milliseconds:.3g}"
