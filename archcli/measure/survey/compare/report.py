"""The report of `archcli compare`, with models as columns, or as rows where they are many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.measure.notes import (
    context_notes,
    form_notes,
    forward_and_decode_forms,
    other_form_notes,
    source_notes,
)
from archcli.measure.report import Column, Report, Table
from archcli.measure.survey.columns import DIFFERING, legend
from archcli.measure.survey.compare.differences import (
    CACHE,
    ComparedFigure,
    ModelSettings,
    aligned,
    differences,
    figures,
    passes_of,
)
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.units import FOUR_FIGURES

CONVENTION = (
    "Ratios are to the first model. FLOP = 2 x multiply-add: matrix products; non-matmul, all else; "
    "a forward has the logits of all tokens, a decoded token its own. KV per token: while the context is "
    "shorter than every window."
)
FEWEST = 2
AS_COLUMNS = 3  # so many models with their ratios fit beside each other into 80 columns
FIGURES_A_TABLE = 3  # and so many figures with theirs where models are rows
WITHOUT_RATIO = {"text", "flag"}
IN_SOME = {"cross_kv_bytes", "state_bytes"}
"""Figures shown only where some model has them above 0."""

MAIN = {
    "params": "parameters",
    "active_params": "active",
    "kv_bytes_per_token": "cache a token",
    "forward_matmul_flops": "FLOPs of a forward",
}
"""Figures of the first line, by their name in it."""

Record = dict[str, Any]


class Compared(NamedTuple):
    """A compared architecture: its name in the report, its source and its YAML mapping."""

    name: str
    source: str
    settings: ModelSettings


def compare_models(
    models: Sequence[Compared],
    request: Request | None = None,
    *,
    context: int | None = None,
    dtype: str = "bf16",
) -> Report:
    """The report of `archcli compare`; `past` and `context` default to `seq_len`.

    Raises ArchError for fewer than two models.
    """
    if len(models) < FEWEST:
        raise ArchError(
            "compare needs two models or more",
            "a model can be named twice, and changed with --set 2:KEY=VALUE",
        )
    models, request = _with_distinct_names(models), request or Request()
    differing = [
        {"section": "YAML", "key": path, "title": path, "unit": "text", "values": list(values)}
        for path, values in differences([compared.settings for compared in models])
    ]
    length = context or request.seq_len
    of_models = [
        figures(compared.name, compared.settings.model, request, length, dtype) for compared in models
    ]
    compared = list(_side_by_side(of_models))
    rows = [*differing, *compared]
    main = {row["key"]: _main(row) for row in compared if row["key"] in MAIN}
    names = [compared.name for compared in models]
    # the cache is in the data type that was asked for, which the legend of a survey does not know
    shape = [row["key"] for row in rows if row["section"] != CACHE]
    return Report(
        command="compare",
        model={"name": ", ".join(names), "source": ", ".join(compared.source for compared in models)},
        inputs=_inputs(models, request, context, dtype),
        convention=" ".join([CONVENTION, legend(shape), DIFFERING]),
        totals={"models": len(models), "differences": len(differing), "figures": main},
        rows=[_flat({"section": "Model", "key": "name", "unit": "text", "values": names}), *map(_flat, rows)],
        tables=tuple(_tables([*compared, *differing], names)),
        notes=(
            *_notes(models, request, length, same=not differing),
            *_form_notes(models, of_models, request),
        ),
        usual={"batch_size": 1, "dtype": "bf16"},
        headline="; ".join(_sentences(names, main)) or f"{len(differing):,} settings differ",
    )


def _with_distinct_names(models: Sequence[Compared]) -> list[Compared]:
    """The compared models with distinct names: equal names are numbered."""
    names = [compared.name for compared in models]
    return [
        compared._replace(name=f"{compared.name} #{i}") if names.count(compared.name) > 1 else compared
        for i, compared in enumerate(models, 1)
    ]


def _side_by_side(models: Sequence[Sequence[ComparedFigure]]) -> Iterator[Record]:
    """A record for each figure with its value in each model, 0 for a group that a model lacks."""
    by_key = [{(figure.section, figure.key): figure for figure in of_model} for of_model in models]
    every = {place: figure for of_model in by_key for place, figure in of_model.items()}
    order = list(dict.fromkeys(section for section, _ in every))
    # a figure that only later models have joins its section; the sort is stable, and keeps the order within
    for place, figure in sorted(every.items(), key=lambda item: order.index(item[0][0])):
        lacking = 0 if figure.section == "Parameters by group" else None
        values = [of_model[place].value if place in of_model else lacking for of_model in by_key]
        if _worth_showing(figure, values):
            yield {**figure._asdict(), "values": values}


def _worth_showing(figure: ComparedFigure, values: Sequence[Any]) -> bool:
    """Whether to show a figure: structure if the models differ in it, any other if some model has it."""
    if figure.section == "Structure":
        return len(set(values)) > 1
    return any(values) if figure.key in IN_SOME else any(value is not None for value in values)


def _flat(record: Record) -> Record:
    """A record of data: value_1, value_2, … and ratio_2, …."""
    values = record["values"]
    named = {f"value_{i}": value for i, value in enumerate(values, 1)}
    ratios = {f"ratio_{i}": _ratio(record, i - 1) for i in range(2, len(values) + 1)}
    return {"section": record["section"], "key": record["key"], "unit": record["unit"], **named, **ratios}


def _ratio(record: Record, i: int) -> float | None:
    """A value as a multiple of the first model's."""
    first, value = record["values"][0], record["values"][i]
    if record["unit"] in WITHOUT_RATIO or not first or value is None:
        return None
    return float(value / first)


def _main(row: Record) -> Record:
    """The values of a figure and their ratios to the first, as lists in the order of the models."""
    return {"values": row["values"], "ratios": [_ratio(row, i) for i in range(len(row["values"]))]}


def _sentences(names: Sequence[str], main: Record) -> Iterator[str]:
    """`deepseek-v3 beside gpt2: 83.6 x the parameters, 0.536 x the cache a token`; later the name alone."""
    for i, name in enumerate(names[1:], 1):
        ratios = {phrase: main[key]["ratios"][i] for key, phrase in MAIN.items() if key in main}
        known = {phrase: ratio for phrase, ratio in ratios.items() if ratio is not None}
        parts = [
            f"{_times(ratio)} x {'' if phrase == 'active' else 'the '}{phrase}"
            for phrase, ratio in known.items()
        ]
        if parts:
            against = f" beside {names[0]}" if i == 1 else ""
            yield f"{name}{against}: {'all the same' if set(known.values()) == {1.0} else ', '.join(parts)}"


def _times(ratio: float) -> str:
    """`83.6`, and `1,330`."""
    return f"{ratio:,.0f}" if ratio >= FOUR_FIGURES else f"{ratio:.3g}"


def _tables(rows: Sequence[Record], names: Sequence[str]) -> Iterator[Table]:
    for section in dict.fromkeys(row["section"] for row in rows):
        of_section = [row for row in rows if row["section"] == section]
        has_ratios = any(row["unit"] not in WITHOUT_RATIO for row in of_section)
        if not has_ratios or len(names) <= AS_COLUMNS:
            yield _models_as_columns(section, of_section, names, ratios=has_ratios)
        else:
            yield from _models_as_rows(section, of_section, names)


def _models_as_columns(section: str, rows: Sequence[Record], names: Sequence[str], *, ratios: bool) -> Table:
    columns = [Column("title", "")]
    for i, name in enumerate(names, 1):
        columns.append(Column(f"value_{i}", name, unit_key="unit"))
        columns += [Column(f"ratio_{i}", "ratio", "ratio")] if ratios and i > 1 else []
    return Table(section, columns, [{"title": row["title"], **_flat(row)} for row in rows])


def _models_as_rows(section: str, rows: Sequence[Record], names: Sequence[str]) -> Iterator[Table]:
    for start in range(0, len(rows), FIGURES_A_TABLE):
        part = rows[start : start + FIGURES_A_TABLE]
        columns = [Column("model", "model")]
        for row in part:
            columns += [
                Column(row["key"], row["title"], row["unit"]),
                Column(f"ratio {row['key']}", "ratio", "ratio"),
            ]
        records = [
            {
                "model": name,
                **{row["key"]: row["values"][i] for row in part},
                **{f"ratio {row['key']}": _ratio(row, i) for row in part},
            }
            for i, name in enumerate(names)
        ]
        yield Table(section if start == 0 else "", columns, records)


def _inputs(models: Sequence[Compared], request: Request, context: int | None, dtype: str) -> Record:
    """The report's `inputs` by name of option; `source_len` None where no model has an encoder."""
    sizes = {key: getattr(request, key) for key in ("batch_size", "seq_len", "past")}
    source_len = request.source_len if _reads_source(models) else None
    forms = forward_and_decode_forms([compared.settings.model for compared in models], request)
    return {**sizes, "context": context, "source_len": source_len, "dtype": dtype, **forms}


def _reads_source(models: Sequence[Compared]) -> bool:
    return any(compared.settings.model.source_length(1) is not None for compared in models)


def _notes(models: Sequence[Compared], request: Request, length: int, *, same: bool) -> Iterator[str]:
    if same:
        yield "their YAML says the same."
    elif not aligned([compared.settings.model for compared in models]):
        yield (
            "their layers lie in different groups: "
            "layers.* tells a setting of all layers of a stack together."
        )
    if request.source_len is not None and not _reads_source(models):
        yield "--source-len has no effect: none of these models has an encoder."
    for name, _, settings in models:
        yield from (f"{name}: {note}" for note in _notes_of(settings.model, request, length))


def _notes_of(model: Model, request: Request, length: int) -> Iterator[str]:
    yield from context_notes(model, max(length, request.seq_len, request.past or 0))
    if model.source_length(1) is not None:
        yield from source_notes(model, request.source_len)


def _form_notes(
    models: Sequence[Compared], of_models: Sequence[Sequence[ComparedFigure]], request: Request
) -> Iterator[str]:
    """Forms without effect, and the FLOPs of each model's passes in their other forms."""
    yield from form_notes([compared.settings.model for compared in models], request.forms)
    keys = {"a forward": "forward_matmul_flops", "a decoded token": "decode_matmul_flops"}
    for (name, _, settings), of_model in zip(models, of_models, strict=True):
        values = {figure.key: figure.value for figure in of_model}
        for (what, key), one_pass in zip(keys.items(), passes_of(request), strict=True):
            notes = () if values[key] is None else other_form_notes(settings.model, one_pass, values[key])
            yield from (f"{name}: {what} with {note}" for note in notes)
