"""Rows of measured/speed/*.csv: a question of archcli each, and what was measured of it."""

import csv
import json
import re
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from archcli.api.asking.subject import subject
from archcli.wings.serving.api.predict import PredictOptions, predict_question

FOLDER = Path(__file__).parents[1] / "measured" / "speed"
YEAR = re.compile(r"20(2[2-9])")
LATEST = 2026
DEVICES = re.compile(r"(?:(\d+)x)?(.+)")
ENDS = ("floor", "expected", "low", "high")
NOT_COUNTED = ("llamacpp_starved",)
"""Kinds of rows that are kept and not counted: cards below their usual power."""


class Seconds(NamedTuple):
    """Seconds of what a row measured, as predicted; all but the floor None without constants."""

    floor: float
    expected: float | None
    low: float | None
    high: float | None


class Row:
    """A measurement: `ask` are keyword arguments of `archcli.predict`, `metric` says what was measured."""

    def __init__(self, table, fields):
        """Read a row of a table."""
        self.table, self.fields = table, fields
        self.id, self.kind, self.model = fields["id"], fields["kind"], fields["model"]
        self.source = fields["source"] or table
        self.metric, self.measured = fields["metric"], float(fields["measured"])
        self.sets, self.ask = json.loads(fields["sets"] or "[]"), json.loads(fields["ask"])
        self.ask.update(self.ask.pop("plan", {}))
        self.engine, self.phase = self.ask.get("engine", ""), self.ask["phase"]
        number, self.device = DEVICES.fullmatch(self.ask["device"]).groups()
        self.number = int(number or 1)

    @property
    def year(self):
        """The last year that the source or the note names; the latest where none is named."""
        years = YEAR.findall(f"{self.fields['source']} {self.fields['note']}")
        return 2000 + int(years[-1]) if years else LATEST

    @cached_property
    def subject(self):
        """The model of the question."""
        return subject(self.model, self.sets)

    @cached_property
    def question(self):
        """The question of archcli. Raises ArchError where it refuses."""
        asked = dict(self.ask)
        return predict_question(
            self.subject.model, PredictOptions(self.subject.model, asked.pop("device"), **asked)
        )

    @cached_property
    def tokens(self):
        """Tokens that the measured rate counts in the time of the whole question."""
        batch = self.ask.get("batch_size", 1)
        if self.phase == "decode":
            return batch
        if self.phase == "serve":
            return batch * (self.ask["new"] + (self.ask["seq_len"] if self.metric == "total_rate" else 0))
        if self.phase == "train":  # of all replicas and micro batches
            return self.question.answer().prediction.tokens
        return batch * self.ask["seq_len"]

    @property
    def measured_s(self):
        """Seconds of the whole question, or of its first or next token."""
        if self.metric in {"ms_token", "first_ms"}:
            return self.measured / 1e3
        per_device = self.number if self.metric == "rate_device" else 1
        return self.tokens / (self.measured * per_device)


def rows(folder=FOLDER):
    """The rows of all tables that are counted."""
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for fields in csv.DictReader(file):
                if fields["kind"] not in NOT_COUNTED:
                    yield Row(path.stem, fields)
