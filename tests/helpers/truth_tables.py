"""Tables of docs/truth.md, made from the files of truth/."""

import json
import sys
from collections import Counter
from pathlib import Path

from engine_tables import table

TRUTH = Path(__file__).parents[2] / "truth"
sys.path.append(str(TRUTH))

import check  # noqa: E402 it lies in the folder that was added

COLUMNS = {
    "params": "params",
    "active_params": "active",
    "flops@2048": "FLOPs, 2,048 tokens",
    "cache_elements@8192": "cached elements, 8,192 tokens",
    "llamacpp_cache_bytes@8192": "llama.cpp's cache, bytes",
    "gguf_bytes_q8_0": "q8_0, bytes",
    "gguf_bytes_q4_k_m": "q4_k_m, bytes",
}

NEAR = 0.01


def results():
    """{tool: {model: {field: text}}} of the files that are kept."""
    about = json.loads((TRUTH / "results/tools.json").read_text())
    return {tool: check.from_table(TRUTH / f"results/{tool}.csv") for tool in about}


def models_table():
    """The figures of each model in one row, those at one length each."""
    figures = check.truth()
    rows = [
        [f"`{model}`", *(f"{row[field]:,}" if field in row else "" for field in COLUMNS)]
        for model, row in figures.items()
    ]
    return table(["model", *COLUMNS.values()], rows, texts=1)


def fields_table():
    """Every field with its meaning and its witness."""
    rows = []
    for witness in check.WITNESSES:
        head = json.loads(witness.read_text())
        rows += [[f"`{field}`", meaning, f"`{witness.name}`"] for field, meaning in head["fields"].items()]
    return table(["field", "what it is", "file"], rows, texts=3)


def results_table():
    """What each tool answers: figures that are equal, of those that it answers, by field."""
    about = json.loads((TRUTH / "results/tools.json").read_text())
    names = list(dict.fromkeys(field.partition("@")[0] for row in check.truth().values() for field in row))
    rows = []
    for tool, answers in results().items():
        counts, differing = check.compared(answers, check.truth())
        near = sum(abs(answer - figure) <= NEAR * figure for *_, answer, figure in differing)
        by_name = {name: Counter() for name in names}
        for field, outcomes in counts.items():
            by_name[field.partition("@")[0]] += outcomes
        by_name["total"] = sum(by_name.values(), Counter())
        shown = [
            f"{count['equal']} of {answered}" if (answered := count["equal"] + count["differ"]) else ""
            for count in by_name.values()
        ]
        shown.append(f"{by_name['total']['equal'] + near} of {by_name['total']['equal'] + len(differing)}")
        rows.append([f"{tool} {about[tool]['version']}", about[tool]["date"], *shown])
    columns = ["tool", "run on", *(f"`{name}`" for name in names), "total", "within 1%"]
    return table(columns, rows, texts=2)


GENERATORS = {
    "truth_models": models_table,
    "truth_fields": fields_table,
    "truth_results": results_table,
}
