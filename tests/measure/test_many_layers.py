"""Work grows with the number of different layers, not with its square: traces and layers are counted."""

import time

import pytest

from archcli.commands.base import subject
from archcli.graph.count_tape import CountTape
from archcli.load.yaml.writer import to_mapping
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.cache_size import CacheSize
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.measure.passes import prefill_pass
from archcli.measure.survey.compare.differences import ModelSettings
from archcli.measure.survey.compare.report import Compared, compare_models
from archcli.measure.survey.show import list_rows
from archcli.measure.survey.survey import survey_models
from archcli.modules import GLU, Group
from archcli.modules.block import Block
from archcli.modules.layers import LayerIndex
from archcli.modules.request import Request
from archcli.render.plain import plain
from small import attention, decoder, layer
from sources import OTHERS

FEW, MANY = 7, 28


def different(n_layers):
    """A decoder whose layers differ in width, and every other one in its window."""
    blocks = (
        layer(attention(window=2 + i) if i % 2 else attention(), GLU(d_ff=8 + i)) for i in range(n_layers)
    )
    return decoder(*(Group(n_layers=1, layer=block) for block in blocks))


def compared(model):
    side = Compared("m", "", ModelSettings(model, to_mapping(model)))
    return compare_models([side, side])


READINGS = {
    "params": count_params,
    "flops": count_flops,
    "decode": lambda model: count_flops(model, Request("decode", past=9)),
    "kvcache": lambda model: count_kv_cache(model, 100),
    "memory": lambda model: count_kv_cache(model, 100, memory_bytes=1 << 20),
    "show": lambda model: list_rows(model, 1, 16),
    "survey": lambda model: survey_models([("m", model)]),
    "compare": compared,
}
MOST_TRACES = {
    "params": 1,
    "flops": 1,
    "decode": 2,
    "kvcache": 7,
    "memory": 8 + 2 * 2 * 20,
    "show": 1,
    "survey": 1,
    "compare": 10,
}
"""How often a command runs the forward: `kvcache` once for the model, and once for each alternative.

What fits beside a prefill is searched for, tokens and sequences: up to 2^20 by doubling, then by halving.
"""


@pytest.fixture
def blocks_run(monkeypatch):
    """A list that grows by one with each block that a tape calls."""
    calls, call = [], CountTape.call

    def counted(tape, module, *args, **options):
        calls.extend([module] if isinstance(module, Block) else [])
        return call(tape, module, *args, **options)

    monkeypatch.setattr(CountTape, "call", counted)
    return calls


@pytest.mark.parametrize("reading", READINGS)
def test_a_command_runs_every_layer_a_few_times(blocks_run, reading):
    READINGS[reading](different(MANY))
    assert 0 < len(blocks_run) <= MOST_TRACES[reading] * MANY


def test_the_memory_to_fill_changes_nothing_of_that(blocks_run):
    model = different(FEW)
    count_kv_cache(model, 100, memory_bytes=1 << 10)
    small = len(blocks_run)
    count_kv_cache(model, 100, memory_bytes=1 << 60)
    assert len(blocks_run) - small <= small + 2 * 2 * 60 * FEW  # up to 2^60 tokens and sequences


def test_each_row_is_sorted_into_a_layer_once():
    class Path(str):
        """A path that counts how often its beginning is looked at."""

        __slots__ = ()
        looks = 0

        def startswith(self, *args):
            Path.looks += 1
            return super().startswith(*args)

    class Stub:
        def __init__(self, path):
            self.path = Path(path)

    model = different(MANY)
    paths = [row.path for row in prefill_pass(model, 1, 1).rows]
    by_layer = LayerIndex(model).by_layer(map(Stub, paths))
    assert Path.looks == len(paths)
    assert list(by_layer) == ["", *(f"layers.{i}" for i in range(MANY))]
    assert sorted(str(row.path) for rows in by_layer.values() for row in rows) == sorted(paths)


def test_the_widths_of_a_table_are_measured_once(monkeypatch):
    measured = []
    monkeypatch.setattr(
        "archcli.render.grid.len", lambda text: measured.append(text) or len(text), raising=False
    )
    cells = []
    for n_layers in (FEW, MANY):
        measured.clear()
        plain(list_rows(different(n_layers), 1, 16))
        cells.append(len(measured))
    assert cells[1] < 2 * cells[0] * MANY / FEW


@pytest.mark.parametrize("context", [1, 3, 17, 1000])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_cache_of_unknown_length_is_that_of_every_length(context, batch_size):
    for model in (different(FEW), *OTHERS.values()):
        if model.caches:
            counted = prefill_pass(model, batch_size, context)
            assert CacheSize(model).elements(context, batch_size) == counted.cached()


HEAD = """name: many
vocab_size: 1000
d_model: 64
max_seq_len: 4096
norm: {kind: rmsnorm, eps: 1e-5}
groups:
"""
LAYER = """  - n_layers: 1
    layer:
      kind: pre_norm
      attention: {{kind: gqa, n_heads: 4, n_kv_heads: 2, head_dim: 16, window: {}, position: rope}}
      ffn: {{kind: glu, d_ff: {}}}
"""


@pytest.mark.long
@pytest.mark.parametrize("reading", READINGS)
def test_seven_hundred_different_layers_are_answered_in_time(tmp_path, reading):
    path = tmp_path / "many.yaml"
    path.write_text(HEAD + "".join(LAYER.format(16 + i, 64 + i) for i in range(700)))
    begun = time.process_time()
    plain(READINGS[reading](subject(str(path), ()).model))
    assert time.process_time() - begun < 10  # 0.5 to 3 on a quiet machine; the square took 48 and more
