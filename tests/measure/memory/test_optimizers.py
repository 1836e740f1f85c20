"""Bytes of optimizers: by hand, as recorded of bitsandbytes and torchao, in symbols and arrays, of shards."""

import json
from pathlib import Path

import pytest

from archcli import load
from archcli.errors import ArchError
from archcli.measure.passes import train_pass
from archcli.wings.serving.memory.training.optimizers import (
    OPTIMIZERS,
    AdamW8bit,
    OptimizerBytes,
    TrainedTensor,
    optimizer,
    trained_tensors,
)
from table import every_row

RECORDS = json.loads((Path(__file__).parent / "eight_bit.json").read_text())
MATRIX = TrainedTensor((48, 128), 2, 3, is_matrix=True)  # three of 6,144 elements
TABLE = TrainedTensor((100, 100), 2)
VECTOR = TrainedTensor((128,), 2, 3)
N = 3 * 48 * 128 + 100 * 100 + 3 * 128
UPDATES = 3 * 48 * 128 + 100 * 100  # of both matrices

BY_HAND = {
    "adamw": (2 * 2 * N, 7 * 4, 2 * N),
    "adamw-fused": (2 * 2 * N + 7 * 4, 0, 0),
    "adamw-mixed": (3 * 4 * N + 7 * 4, 0, 4 * 100 * 100),
    "adamw-mixed-fused": (3 * 4 * N + 7 * 4, 0, 0),
    "sgd": (0, 0, 0),
    "sgd-momentum": (2 * N, 0, 0),
    # a table after a matrix: both updates, the means of its rows and columns, and the mean of those
    "adafactor": (
        2 * (3 * (48 + 128) + 100 + 100 + 3 * 128),
        7 * 4,
        2 * (48 * 128 + 100 * 100 + 100 + 100 + 1),
    ),
    "adam8bit": (
        2 * (3 * 48 * 128 + 100 * 100)  # two moments of a byte
        + 2 * 4 * (3 * 24 + 40)  # a scale per 256: 6,144 / 256, and 10,000 / 256 rounded up
        + 2 * 4 * 3 * 128  # vectors in fp32
        + 2 * 256 * 4,  # tables
        0,
        0,
    ),
    # no tensor has 100,000 elements: all of it stays on the device
    "paged-adam8bit": (
        2 * (3 * 48 * 128 + 100 * 100) + 2 * 4 * (3 * 24 + 40) + 2 * 4 * 3 * 128 + 2 * 256 * 4,
        0,
        0,
    ),
    "paged-adamw": (2 * 4 * N, 0, 0),
    "muon": (
        2 * 3 * 48 * 128 + 2 * 2 * (100 * 100 + 3 * 128),
        4 * 4,
        max(6 * 48 * 128 + 4 * 48 * 48, 2 * (100 * 100 + 3 * 128)),
    ),
}


def test_gradients_in_fp32_are_not_cast():
    summed = [tensor._replace(summed_width=4) for tensor in (MATRIX, TABLE, VECTOR)]
    assert optimizer("adamw-mixed").state(summed) == OptimizerBytes(3 * 4 * N + 7 * 4, 0, 0)


@every_row("name", OPTIMIZERS)
def test_bytes_are_those_worked_out_by_hand(name):
    assert optimizer(name).state([MATRIX, TABLE, VECTOR]) == OptimizerBytes(*BY_HAND[name])


def of_library(name):
    return [record for record in RECORDS if record["library"] == name]


def of(record):
    return [TrainedTensor(tuple(shape), record["width"]) for shape in record["shapes"]]


@every_row("record", of_library("bitsandbytes"), ids=str)
def test_adam8bit_is_that_of_bitsandbytes(record):
    assert optimizer("adam8bit").state(of(record)) == OptimizerBytes(record["state"], record["step"], 0)


@every_row("record", of_library("torchao"), ids=str)
def test_torchao_differs_in_small_and_uneven_tensors_and_tables_alone(record):
    tensors = of(record)
    in_blocks = [t for t in tensors if t.elements >= 4096 and t.elements % 256 == 0]
    others = sum(2 * t.elements * t.width for t in tensors if t not in in_blocks)
    tables = 2 * 4 * 256 * max(len(in_blocks) - 1, 0)
    assert record["state"] == optimizer("adam8bit").state(in_blocks).device + tables + others
    assert record["step"] == 4 * len(tensors)


@pytest.mark.parametrize(("constant", "wrong"), [("block", 128), ("smallest", 4098), ("levels", 128)])
def test_a_wrong_block_is_seen(monkeypatch, constant, wrong):
    monkeypatch.setattr(AdamW8bit, constant, wrong)
    assert any(optimizer("adam8bit").state(of(r)).device != r["state"] for r in of_library("bitsandbytes"))


def test_bytes_a_parameter_are_the_published_ones():
    tensors = list(trained_tensors(train_pass(load("llama-3.1-8b"), 1, 8).rows, 2))
    params = 8_030_261_248
    assert sum(tensor.count * tensor.elements for tensor in tensors) == params
    per_param = {name: rule.state(tensors).device / params for name, rule in OPTIMIZERS.items()}
    assert per_param["adamw"] == 4  # two moments in bf16
    assert per_param["sgd"] == 0
    assert per_param["sgd-momentum"] == 2
    assert per_param["adamw-mixed"] == pytest.approx(12, abs=1e-6)  # ZeRO's K
    assert per_param["adam8bit"] == pytest.approx(2 * (1 + 4 / 256), abs=1e-6)


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_arrays_and_symbols_count_as_ints_do(name):
    import numpy as np
    import sympy

    def state(d, f, layers):
        return optimizer(name).state(
            [
                TrainedTensor((d, f), 2, layers, is_matrix=True),
                TrainedTensor((f, d), 2, layers),
                TrainedTensor((4, d, f), 2),
                TrainedTensor((d,), 2, 2 * layers),
            ]
        )

    shapes = [(16, 40, 1), (64, 64, 3), (4100, 7, 1), (128, 300, 2)]
    expected = [tuple(map(int, state(*shape))) for shape in shapes]
    arrays = state(*(np.array(column) for column in zip(*shapes, strict=True)))
    symbols = sympy.symbols("d f L", positive=True, integer=True)
    forms = state(*symbols)
    for i, shape in enumerate(shapes):
        values = dict(zip(symbols, shape, strict=True))
        assert tuple(int(np.broadcast_to(column, len(shapes))[i]) for column in arrays) == expected[i]
        assert tuple(sympy.sympify(form).subs(values) for form in forms) == expected[i]


@pytest.mark.parametrize("name", ["adamw", "adamw-fused", "sgd-momentum"])
def test_shards_have_the_whole_state_between_them_and_a_step_each(name):
    whole, shards = TrainedTensor((10, 8), 2), [TrainedTensor((rows, 8), 2) for rows in (4, 4, 2, 0)]
    rule = optimizer(name)
    step = rule.state([TrainedTensor((0, 8), 2)])
    parts = [rule.state([shard]) for shard in shards]
    for field in ("device", "host"):
        total = sum(getattr(part, field) for part in parts)
        assert total == getattr(rule.state([whole]), field) + 3 * getattr(step, field)


def test_a_shard_below_4096_elements_is_kept_in_fp32():
    rule = optimizer("adam8bit")
    assert rule.state([TrainedTensor((64, 64), 2)]).device == 2 * 4096 + 2 * 4 * 16 + 2 * 256 * 4
    assert rule.state([TrainedTensor((63, 64), 2)]).device == 2 * 4 * 63 * 64


def test_an_unknown_optimizer_is_an_error_with_a_hint():
    with pytest.raises(ArchError, match="did you mean adamw"):
        optimizer("adamW")
    with pytest.raises(ArchError, match=r"known are adamw, .*muon"):
        optimizer("xyzzy")
