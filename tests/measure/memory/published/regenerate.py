"""Training runs that fitted, as llm-foundry published them, and the shapes of its models.

Regenerates `llm_foundry.csv` and `mpt_shapes.csv` from tables with more columns, of the same rows:

    python tests/measure/memory/published/regenerate.py LLMFOUNDRY_TRAIN.csv MPT_SHAPES.csv

The first has a row for each run of scripts/train/benchmarking/README.md of mosaicml/llm-foundry (Apache-2.0)
at 8c8dd48; `line` is its line there. The second is what that repository's YAMLs state. None of our code takes
part; tests/measure/memory/test_published.py compares the parameters of each run with those we count.
"""

import csv
import sys
from pathlib import Path

HERE = Path(__file__).parent
COMMIT = "8c8dd48f72168c5d51e2f7b151595892a8fba43d"
RUNS, SHAPES = HERE / "llm_foundry.csv", HERE / "mpt_shapes.csv"
KEPT = {
    RUNS: (
        "line",
        "model",
        "device",
        "n_devices",
        "precision",
        "mp_mode",
        "sharding",
        "activation_checkpointing",
        "seq_len",
        "micro_batch",
        "params",
    ),
    SHAPES: ("model", "d_model", "n_heads", "n_layers", "d_ff", "vocab_size", "positions", "tied"),
}


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table; those of another commit or offloaded to the CPU are an error."""
    with path.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    wrong = [
        row
        for row in table
        if row.get("commit", COMMIT) != COMMIT or row.get("activation_cpu_offload", "False") != "False"
    ]
    if wrong:
        raise SystemExit(f"{path}: of another commit, or offloaded: {wrong[0]}")
    return table


def write(path: Path, table: list[dict[str, str]]) -> None:
    """The kept columns of a table, in its order."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, KEPT[path], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    for given, kept in zip(sys.argv[1:], (RUNS, SHAPES), strict=True):
        write(kept, rows(Path(given)))
