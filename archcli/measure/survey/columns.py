"""Columns of a survey: a key, a heading, a unit, and how the value is read from an architecture.

A column of layers has a value for each distinct layer. Where layers differ, text is followed by the number of
its layers; of figures the column has the value of most layers, and `mixed` all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from archcli.arith import Number, to_bytes
from archcli.measure.report import Column, Unit
from archcli.measure.survey import attributes as of
from archcli.measure.survey.attributes import (
    Architecture,
    SurveyLayer,
    architecture_of,
    format_tally,
    most_common,
    tally,
)
from archcli.modules import Model
from archcli.modules.spec.kinds import kind_of

DTYPE = "bf16"
"""The data type of the cache in bytes per token."""

WORDS: frozenset[Unit] = frozenset({"text", "flag", "date"})

LEGEND = (
    ({"head_ratio"}, "heads/d: n_heads x head_dim / d_model."),
    ({"head_ratio", "head_dim"}, "head_dim: of a query head, in MLA of both its parts."),
    ({"d_ff", "d_ff_ratio"}, "d_ff: of a dense layer or of one expert."),
    (
        {"active_d_ff", "active_d_ff_ratio"},
        "active d_ff: of the top_k experts of a token and the shared one.",
    ),
    ({"n_layers", "aspect_ratio"}, "n_layers: of the deepest stack."),
    (
        {"placement"},
        "norms: pre, before a sublayer; after, behind it in the residual; sandwich, both; post, on the sum.",
    ),
    (
        {"kv_bytes_per_token"},
        f"KV: cache per token while the context is shorter than every window, in {DTYPE}.",
    ),
    (
        {"attention_share"},
        "attention share: layers with scores, of those that mix tokens, where some are recurrent.",
    ),
    ({"state_bytes"}, f"states: cache of a sequence that does not grow, in {DTYPE}."),
)
"""Explanations of columns: the keys that a sentence is for, and the sentence."""
DIFFERING = "Where layers differ, text says of how many layers it is, and figures are those of most layers."


def legend(keys: Collection[str]) -> str:
    """The explanations of the columns that are shown."""
    return " ".join(sentence for explained, sentence in LEGEND if not explained.isdisjoint(keys))


Record = dict[str, Any]


class SurveyColumn(NamedTuple):
    """A column of a survey.

    key, title, unit: its name in JSON, its heading, the unit of its values.
    section: the heading that it is shown under; empty for a column of data alone.
    of_model: reads its value from the whole model. of_layer: in place of that, from each distinct layer.
    """

    key: str
    title: str
    unit: Unit
    section: str
    of_model: Callable[[Architecture], Any] | None = None
    of_layer: Callable[[Architecture, SurveyLayer], Any] | None = None

    @property
    def is_figure(self) -> bool:
        """Whether the values are numbers, so that medians and ratios exist."""
        return self.unit not in WORDS

    def figure(self, architecture: Architecture) -> Any:
        """The value of a column of figures; where layers differ that of most of them."""
        if self.of_layer is not None:
            return most_common(self.by_layer(architecture))
        return None if self.of_model is None else self.of_model(architecture)

    def by_layer(self, architecture: Architecture) -> Iterator[tuple[Any, Number]]:
        """(value, how many layers have it) of each distinct layer."""
        of_layer = self.of_layer or (lambda *_: None)
        return ((of_layer(architecture, layer), layer.times) for layer in architecture.layers)

    @property
    def column(self) -> Column:
        """The table column: key, heading and unit."""
        return Column(self.key, self.title, self.unit)


def describe(name: str, model: Model) -> Record:
    """The value of every column for a model, by key, unrounded.

    `mixed` holds [[value, layers], …] of figures that differ by layer.
    """
    return describe_architecture(name, architecture_of(model))


def describe_architecture(name: str, architecture: Architecture) -> Record:
    """The value of every column, by key, for an architecture whose layers are sorted already."""
    record: Record = {"name": name}
    mixed: dict[str, list[list[Any]]] = {}
    for column in COLUMNS.values():
        if column.of_layer is None:
            record[column.key] = column.figure(architecture)
            continue
        counts = tally(column.by_layer(architecture))
        record[column.key] = format_tally(counts) if column.unit == "text" else most_common(counts.items())
        if len(counts) > 1 and column.unit != "text":
            mixed[column.key] = [[value, times] for value, times in counts.items()]
    return {**record, "mixed": mixed}


SECTIONS = (
    "Size",
    "Shape",
    "Norms and wiring",
    "Feed-forward and position",
    "Attention",
    "Heads",
    "Recurrence",
    "Experts",
)
SOME = {"Recurrence": "state_bytes", "Experts": "n_experts"}
"""Sections of some models alone: of those that have a value in this column."""

_ALL = (
    SurveyColumn("series", "series", "text", "", lambda architecture: architecture.model.series),
    SurveyColumn("released", "released", "date", "Size", of.released),
    SurveyColumn("year", "year", "date", "", of.year),
    SurveyColumn("params", "params", "count", "Size", lambda architecture: architecture.counted.params()),
    SurveyColumn("active_params", "active", "count", "Size", of.active),
    SurveyColumn(
        "vocab_size", "vocabulary", "number", "Size", lambda architecture: architecture.model.vocab_size
    ),
    SurveyColumn("tied", "tied", "flag", "Size", lambda architecture: architecture.model.embedding.tied),
    SurveyColumn(
        "max_seq_len", "context", "number", "Size", lambda architecture: architecture.model.max_seq_len
    ),
    SurveyColumn(
        "stacks",
        "stacks",
        "text",
        "",
        lambda architecture: ", ".join(f"{name} {depth}" for name, depth in of.depths(architecture).items()),
    ),
    SurveyColumn("kind", "kind", "text", "", lambda architecture: kind_of(architecture.model) or None),
    SurveyColumn("media", "media", "text", "", of.media),
    SurveyColumn(
        "layers", "layers", "number", "", lambda architecture: sum(of.depths(architecture).values())
    ),
    SurveyColumn("n_layers", "n_layers", "number", "Shape", of.n_layers),
    SurveyColumn("d_model", "d_model", "number", "Shape", lambda architecture: architecture.model.d_model),
    SurveyColumn(
        "aspect_ratio",
        "d/layers",
        "ratio",
        "Shape",
        of.aspect_ratio,
    ),
    SurveyColumn("d_ff", "d_ff", "number", "", of_layer=of.d_ff),
    SurveyColumn("d_ff_ratio", "d_ff/d", "ratio", "Shape", of_layer=of.d_ff_ratio),
    SurveyColumn("active_d_ff", "active d_ff", "number", "", of_layer=of.active_d_ff),
    SurveyColumn("active_d_ff_ratio", "active d_ff/d", "ratio", "Shape", of_layer=of.active_d_ff_ratio),
    SurveyColumn("head_ratio", "heads/d", "ratio", "Shape", of_layer=of.head_ratio),
    SurveyColumn(
        "norm",
        "norm",
        "text",
        "Norms and wiring",
        of_layer=lambda _, layer: kind_of(layer.block.norm) or "?",
    ),
    SurveyColumn("placement", "placement", "text", "Norms and wiring", of_layer=of.placement),
    SurveyColumn(
        "final_norm",
        "final norm",
        "flag",
        "Norms and wiring",
        of_layer=lambda _, layer: layer.stack.final_norm,
    ),
    SurveyColumn(
        "wiring",
        "wiring",
        "text",
        "Norms and wiring",
        of_layer=lambda _, layer: layer.block.wiring,
    ),
    SurveyColumn("bias", "bias", "text", "Norms and wiring", of_layer=of.bias),
    SurveyColumn(
        "ffn",
        "ffn",
        "text",
        "Feed-forward and position",
        of_layer=of.ffn,
    ),
    SurveyColumn(
        "activation",
        "activation",
        "text",
        "Feed-forward and position",
        of_layer=of.activation,
    ),
    SurveyColumn("position", "position", "text", "Feed-forward and position", of_layer=of.position),
    SurveyColumn("rope_theta", "theta", "number", "Feed-forward and position", of_layer=of.theta),
    SurveyColumn("rope_scaling", "scaling", "text", "", of_layer=of.scaling),
    SurveyColumn("attention", "attention", "text", "Attention", of_layer=of.attention),
    SurveyColumn("pattern", "pattern", "text", "Attention", of_layer=lambda _, layer: layer.facts.pattern),
    SurveyColumn("stability", "stability", "text", "Attention", of_layer=of.stability),
    SurveyColumn("n_heads", "heads", "number", "Heads", of_layer=lambda _, layer: layer.facts.n_heads),
    SurveyColumn(
        "n_kv_heads",
        "kv",
        "number",
        "Heads",
        of_layer=lambda _, layer: layer.facts.n_kv_heads,
    ),
    SurveyColumn("head_dim", "head_dim", "number", "Heads", of_layer=lambda _, layer: layer.facts.head_dim),
    SurveyColumn(
        "kv_bytes_per_token",
        "KV/token",
        "bytes",
        "Heads",
        # the pass has one token, which fills no window: what it leaves is what each token adds
        lambda architecture: to_bytes(architecture.counted.kv_elements(), DTYPE),
    ),
    SurveyColumn("mixers", "mixers", "text", "Recurrence", of.mixers),
    SurveyColumn("attention_share", "attention share", "share", "Recurrence", of.attention_share),
    SurveyColumn(
        "state_bytes",
        "states",
        "bytes",
        "Recurrence",
        lambda architecture: of.state_bytes(architecture, DTYPE),
    ),
    SurveyColumn("state_heads", "state heads", "number", "Recurrence", of_layer=of.recurrence("n_heads")),
    SurveyColumn("state_dim", "key width", "number", "Recurrence", of_layer=of.recurrence("key_dim")),
    SurveyColumn(
        "state_head_dim", "value width", "number", "Recurrence", of_layer=of.recurrence("value_dim")
    ),
    SurveyColumn("conv_kernel", "conv", "number", "Recurrence", of_layer=of.recurrence("conv_kernel")),
    SurveyColumn("scan_chunk", "chunk", "number", "", of_layer=of.recurrence("chunk")),
    SurveyColumn("n_experts", "experts", "number", "Experts", of_layer=of.n_experts),
    SurveyColumn("top_k", "top_k", "number", "Experts", of_layer=of.top_k),
    SurveyColumn("expert_ratio", "experts/top_k", "ratio", "Experts", of_layer=of.expert_ratio),
    SurveyColumn("active_share", "active share", "share", "Experts", of.active_share),
    SurveyColumn("source", "source", "text", "", lambda architecture: architecture.model.source),
)
COLUMNS: Mapping[str, SurveyColumn] = {column.key: column for column in _ALL}
"""All columns by key, in the order of data."""

CONDITIONS = (Column("name", "model"), *(column.column for column in COLUMNS.values()))
"""What --where and --sort take, of every command that has them."""
