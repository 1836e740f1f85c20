"""Every preset, matrix by matrix: of what do two ranks have half each, and of what all."""

from pathlib import Path

import pytest

from archcli.arith import prod
from archcli.errors import ArchError
from archcli.graph import OpClass
from archcli.load.source import load
from archcli.measure.passes import train_pass
from archcli.modules.tensor_parallel.shard import shard
from archcli.ops.communicate import Communication

PRESETS = Path(__file__).parents[3] / "presets"
REFUSED = {
    "bamba-9b",
    "bitnet-b1.58-2b-4t",
    "embeddinggemma-300m",
    "falcon-7b",
    "falcon-h1-0.5b",
    "falcon-h1-1.5b",
    "falcon-h1-7b",
    "gemma-3n-e2b",
    "gemma-3n-e4b",
    "gpt2-xl",
    "granite-4.0-h-tiny",
    "jetmoe-8b",
    "lfm2-1.2b",
    "lfm2-350m",
    "lfm2-8b-a1b",
    "longcat-flash",
    "mamba2-2.7b",
    "minimax-text-01",
    "smollm2-135m",
    "smollm2-360m",
    "smolvlm-256m",
    "zamba-7b",
    "zamba2-1.2b",
}
"""Presets that two ranks cannot share: numbers of heads or groups, and kinds that are not split."""


def held(row):
    """Elements of each weight."""
    copies = row.copies * (row.experts.n_experts if row.experts else 1)
    return {name: copies * prod(shape) for name, shape in row.weights.items()}


def multiplied(row):
    parts = [it.part for it in row.pieces("train") if it.part.op_class is OpClass.CONTRACTION]
    return {"flops": row.times * sum(part.flops for part in parts)}


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", sorted(path.stem for path in PRESETS.glob("*.yaml")))
def test_presets(name):
    """Of each weight and product two ranks have half, or parts that add up, or both have all of it."""
    model = load(name).model
    try:
        ranks = [shard(model, 2, rank=rank) for rank in (0, 1)]
    except ArchError:
        assert name in REFUSED
        return
    assert name not in REFUSED
    whole = {row.path: row for row in train_pass(model, 1, 64).rows}
    first, last = ({row.path: row for row in train_pass(part, 1, 64).rows} for part in ranks)
    assert first.keys() == last.keys() > whole.keys()
    split = 0
    for path, row in whole.items():
        for figures in (held, multiplied):
            for key, value in figures(row).items():
                parts = figures(first[path])[key], figures(last[path])[key]
                assert parts == (value, value) or sum(parts) == value, (path, key)
                split += sum(parts) == value != 0
    assert split > 4
    assert all(isinstance(first[path].op, Communication) for path in first.keys() - whole.keys())
