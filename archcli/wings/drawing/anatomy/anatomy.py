"""The anatomy of a model: what a drawing of it says, read off rows and the reports of other commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import inf
from typing import Any

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph.wired_tape import WiredRow
from archcli.measure.flops import count_flops
from archcli.measure.notes import sized_medium
from archcli.measure.params import as_published, count_params
from archcli.measure.survey.show import WEIGHTS, recurrence_records
from archcli.measure.survey.wired import wired_forward
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Request, usual_tokens
from archcli.wings.drawing.anatomy.figures import HEADED, shown
from archcli.wings.drawing.anatomy.kinds import Kinds
from archcli.wings.drawing.anatomy.part_shares import with_shares
from archcli.wings.drawing.anatomy.parts import Sizes, letter_of
from archcli.wings.drawing.anatomy.reading import forward_of, marks_of
from archcli.wings.drawing.anatomy.roles import role_of
from archcli.wings.drawing.anatomy.shares import Shown, by_component, by_group, by_layers, by_operator
from archcli.wings.drawing.anatomy.strips import strips_of, tower_strip
from archcli.wings.drawing.anatomy.totals import cache_of, cache_totals, flops_per_token, parameter_totals
from archcli.wings.drawing.drawn import Anatomy, Figure, NumberedLine, Share, Statement
from archcli.wings.serving.recorded.conditions import lines_of

Bars = tuple[str, tuple[Share, ...], tuple[str, ...]]
"""Bars at the foot: their title, what they are of, and lines below the title."""


def anatomy(model: Model, shown: Shown = "params", profile: Mapping[str, Any] | None = None) -> Anatomy:
    """What a drawing of a model says; `shown` is what its bars are of, `profile` a saved one for `time`."""
    return DrawnModel(model).anatomy(shown, profile)


class DrawnModel:
    """A model with its rows and totals, which its drawing is read off.

    The totals are those that the commands print: summed from the same rows, without another trace.
    """

    def __init__(self, model: Model, letters: Iterator[str] | None = None) -> None:
        self.model = model
        # layers that a text passes by are drawn as they read an image
        read = model.with_media(tuple(tower.usual for tower in model.towers))
        trace = wired_forward(read)
        self.rows = trace.rows
        self.of_text = trace.rows if read is model else wired_forward(model).rows
        layers = {path: rows for path, rows in LayerIndex(model).by_layer(self.rows).items() if path}
        letters = map(letter_of, count()) if letters is None else letters
        self.kinds = Kinds(forward_of(trace), layers, dict(_sizes(model, self.rows)), letters)
        self.strips = strips_of(model, self.rows, self.kinds.kinds)
        self.params = parameter_totals(model, self.rows)

    def anatomy(self, shown: Shown, profile: Mapping[str, Any] | None) -> Anatomy:
        """What a drawing of it says."""
        title, shares, lines = self._bars(shown, profile)
        return Anatomy(
            self.model.name,
            self._subtitle(),
            tuple(self._headline()),
            self.strips,
            self.kinds.kinds,
            with_shares(self.kinds.parts.values(), self.kinds.places, shown, self.model, profile),
            shares,
            shown,
            title,
            (*self._foot(), *lines),
            tuple(self._towers(shown)),
            self._settings(),
        )

    def _towers(self, shown: Shown) -> Iterator[Anatomy]:
        """Each tower as its encoder, whose strip ends with the projector; a profile has none of its times."""
        numbers: dict[str, Iterator[int]] = defaultdict(lambda: count(1))
        for tower in self.model.towers:
            encoder: Any = tower.model  # a model by itself
            if not encoder.groups:  # patches alone (Fuyu), of which there is nothing to draw
                continue
            letters = map(f"{tower.part[:1].upper()}{{}}".format, numbers[tower.part])
            drawn = DrawnModel(encoder, letters).anatomy("params" if shown == "time" else shown, None)
            *below, last = drawn.strips
            strip = tower_strip(tower, last, self.strips[-1].joins.reads)
            subtitle = NumberedLine(drawn.subtitle, *(f" · {note}" for note in strip.joins.notes))
            name = f"{self.model.name}: {tower.part}"
            yield replace(drawn, name=name, part=tower.part, subtitle=subtitle, strips=(*below, strip))

    def _subtitle(self) -> str:
        """Layers, width and vocabulary."""
        parts: list[str | Figure] = []
        for strip in self.strips:
            word = "layers" if len(self.strips) == 1 else f"{strip.title} layers"
            parts += [" · "] * bool(parts) + [strip.n_layers, f" {word}"]
        # a table with rows beyond the vocabulary does not say how large that is, and the head does
        group = "lm_head" if self.model.embedding.extra_rows else "embedding"
        table = next((row for row in self.rows if row.group == group and row.weights), None)
        if table is not None:
            entries = shown(table, "weights.weight.0", table.weights["weight"][0])
            parts += [" · ", *self._stream(), " · vocabulary ", entries]
        return NumberedLine(*parts)

    def _stream(self) -> Iterator[str | Figure]:
        """d_model, and the number of residual streams: the first layer reads [B, T, D] or [B, T, n, D]."""
        row = next(row for row in self.rows if row.layers is not None)
        *_, streams, width = row.inputs[0]
        last = len(row.inputs[0]) - 1
        yield from ("d_model ", shown(row, f"inputs.0.{last}", width))
        if last == HEADED - 1:
            yield from (" × ", shown(row, f"inputs.0.{last - 1}", streams), " streams")

    def _settings(self) -> Statement:
        """Context, what tells tokens' places, and date."""
        context, date = self.model.max_seq_len, self.model.released
        added = (label for strip in self.strips for label in strip.before if "positions" in label)
        on_scores = (mark for mark in self.kinds.forward.marks(self.rows) if mark == "ALiBi")
        by_table = (", ".join(marks_of(row)) for row in self.rows if role_of(row) == "aside")
        places = dict.fromkeys(filter(None, (*added, *on_scores, *by_table)))
        settings = ["" if context is None else f"context {context:,}", " / ".join(places), str(date or "")]
        return Statement(" · ".join(filter(None, settings)))

    def _headline(self) -> Iterator[tuple[Figure, str, str]]:
        """The key figures, each with its caption and its form."""
        totals = self.params
        yield Figure(totals["params"], "params", "", "params"), "parameters", "short"
        if totals["active_params"] != totals["params"]:
            yield Figure(totals["active_params"], "params", "", "active_params"), "active", "short"
        if self.model.towers:
            whole = count_params(self.model).totals["params_with_towers"]
            yield Figure(whole, "params", "", "params_with_towers"), "with towers", "short"
        growing, constant = cache_totals(self.of_text)
        if self.model.caches and growing:
            yield from self._growing(growing)
        if self.model.caches and constant:
            yield Figure(constant, "kvcache", "", "state_bytes"), "state of a sequence, bf16", "bytes"
        if self.model.media and not self.model.towers:
            (read,) = count_flops(self.model).totals["media"]
            (medium,) = self.model.fitted(Request()).media
            caption = f"FLOP per {sized_medium(read, medium.kind)}"
            yield Figure(read["matmul_flops"], "flops", "", "matmul_flops"), caption, "flops"
            return
        tokens = usual_tokens(self.model.max_seq_len)
        flops = flops_per_token(self.of_text, tokens)
        yield Figure(flops, "flops", "", "matmul_flops_per_token"), f"FLOP per token at {tokens:,}", "flops"

    def _growing(self, growing: Number) -> Iterator[tuple[Figure, str, str]]:
        """The cache of a token; with windows that of the first tokens, and of all of the context."""
        per_token = Figure(growing, "kvcache", "", "bytes_per_token")
        masks = [node.mask for part in self.kinds.parts.values() for node in part.nodes if node.mask]
        report = cache_of(self.model) if any(mask.window for mask in masks) else None
        windows = [row["window"] for row in report.rows if row["window"]] if report else []
        if report is None or min(windows, default=inf) >= report.inputs["context"]:
            yield per_token, "cache per token, bf16", "bytes"
            return
        yield per_token, f"cache per token up to {min(windows):,}, bf16", "bytes"
        whole = Figure(report.totals["bytes"], "kvcache", "", "bytes")
        yield whole, "cache of the full context, bf16", "bytes"

    def _bars(self, shown: Shown, profile: Mapping[str, Any] | None) -> Bars:
        """The bars at the foot."""
        hues, model = self.kinds.hues, self.model
        match shown:
            case "params":
                shares = by_group(self.rows, hues, self.params, "by_group", "active_by_group")
                return "Where the parameters are", shares, ()
            case "bytes":
                totals = count_params(model).totals
                shares = by_group(self.rows, hues, totals, "bytes_by_group", "active_bytes_by_group")
                title = f"Where the bytes of the weights are{'' if model.quantization else f', {WEIGHTS}'}"
                return title, shares, as_published(model, totals)
            case "flops":
                report = count_flops(model)
                tokens = Figure(report.totals["tokens"], "flops", "", "tokens")
                title = NumberedLine("Where the FLOPs of ", tokens, " tokens go")
                return title, by_component(self.rows, hues, report), ()
            case "kv" if not model.caches:
                return "No cache", (), ("an encoder keeps nothing from pass to pass",)
            case "kv":
                report = cache_of(model)
                title = f"Where the cache of {report.inputs['context']:,} tokens is, {report.inputs['dtype']}"
                return title, by_layers(report), ()
            case "time":
                if profile is None:
                    raise ArchError("time is that of a saved profile", "add --profile p.json")
                return "Where the time goes", by_operator(self.rows, hues, profile), lines_of(profile)

    def _foot(self) -> Iterator[str]:
        """What the bars leave out."""
        if self.params["mtp_params"]:
            apart = Figure(self.params["mtp_params"], "params", "", "mtp_params")
            yield NumberedLine("without the ", apart, " of multi-token prediction")


def _sizes(model: Model, rows: Sequence[WiredRow]) -> Iterator[tuple[str, Sizes]]:
    """The number, rows and columns of the state of each layer that carries one, by the layer's path."""
    for place, record in enumerate(recurrence_records(model, rows)):
        keys = ("n_heads", "key_dim", "value_dim")
        if all(record[key] is not None for key in keys):
            count, height, width = (
                Figure(record[key], "show", "", f"recurrences.{place}.{key}") for key in keys
            )
            yield record["path"], (count, height, width)
