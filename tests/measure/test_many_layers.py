"""Work grows with the number of different layers, not with its square: traces and layers are counted."""

import sys

import pytest

from archcli.api.asking.subject import subject
from archcli.graph.count_tape import CountTape
from archcli.load import load
from archcli.load.spec.written import to_mapping
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.cache_size import CacheSize
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.measure.passes import forward_pass, prefill_pass
from archcli.measure.survey.compare.differences import ModelSettings
from archcli.measure.survey.compare.report import Compared, compare_models
from archcli.measure.survey.show import list_rows
from archcli.modules import GLU, Group
from archcli.modules.blocks.block import Block
from archcli.modules.models.layers import DistinctLayer, LayerIndex
from archcli.modules.spec.request import Request
from archcli.ops import Linear
from archcli.render.plain import plain
from archcli.wings.serving.launches.memory import op_reader
from archcli.wings.serving.memory.answers.changes import formats_by_bytes
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.answers.report import count_memory
from archcli.wings.serving.memory.plan import DeviceMemory
from archcli.wings.serving.memory.settings import MemorySettings
from different_layers import different_layers
from small import attention, decoder, layer
from sources import OTHERS
from surveying import survey_models

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


def memory(phase, **settings):
    """Memory on a device on which nothing fits, so that every change is tried."""
    full = DeviceMemory("full", 1)
    return lambda model: count_memory(
        MemoryQuestion(model, MemorySettings(phase, 4, 64, **settings), device=full)
    )


READINGS = {
    "params": count_params,
    "flops": count_flops,
    "decode": lambda model: count_flops(model, Request("decode", past=9)),
    "kvcache": lambda model: count_kv_cache(model, 100),
    "memory": lambda model: count_kv_cache(model, 100, memory_bytes=1 << 20),
    "serve": memory("serve"),
    "train": memory("train"),
    "show": lambda model: list_rows(model, 1, 16),
    "survey": lambda model: survey_models([("m", model)]),
    "compare": compared,
}
MOST_TRACES = {
    "params": 1,
    "flops": 1,
    "decode": 2,
    "kvcache": 7,
    "memory": 8 + 16,
    "serve": 4,
    "train": 2,
    "show": 2,
    "survey": 1,
    "compare": 10,
}
"""How often a command runs the forward: `kvcache` once for the model, and once for each alternative, `show`
once more for what a prefill caches.

What fits beside a prefill is searched for along a line. Where weights alone, or the states of an optimizer,
are too much, no change is traced: a step is its rows and one pass, serving also its cache and all weights.
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


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("reading", READINGS)
def test_a_command_runs_every_layer_a_few_times(blocks_run, reading):
    READINGS[reading](different(MANY))
    assert 0 < len(blocks_run) <= MOST_TRACES[reading] * MANY


def test_alternatives_of_a_cache_run_one_layer_of_all_that_cache_alike(blocks_run):
    groups = (Group(n_layers=1, layer=layer(attention(), GLU(d_ff=8 + i))) for i in range(MANY))
    count_kv_cache(decoder(*groups), 100)
    assert len(blocks_run) == MANY + 4  # of the model each, and one as MHA, GQA, MQA and MLA


def test_sizes_in_all_formats_ask_each_layer_for_its_facts_once(monkeypatch):
    asked_of, facts = [], DistinctLayer.facts
    monkeypatch.setattr(DistinctLayer, "facts", lambda it, *of: asked_of.append(it.path) or facts(it, *of))
    sizes = formats_by_bytes(MemoryQuestion(different(MANY), MemorySettings("serve", 1, 64)))
    assert len(sizes) > 12
    assert len(asked_of) == len(set(asked_of)) == MANY


@pytest.mark.long
def test_the_memory_to_fill_changes_nothing_of_that(blocks_run):
    model = different(FEW)
    count_kv_cache(model, 100, memory_bytes=1 << 10)
    small = len(blocks_run)
    count_kv_cache(model, 100, memory_bytes=1 << 60)
    # tokens and sequences are not counted up to: one trace more, that of the most tokens
    assert len(blocks_run) - small <= small + FEW


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


def calls(task):
    """How many functions a task calls."""
    number = 0

    def count(frame, event, arg):
        nonlocal number
        number += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        task()
    finally:
        sys.setprofile(None)
    return number


def test_a_layer_is_not_searched_for_among_all_layers():
    index = LayerIndex(different(64 * FEW))
    assert index.counted_path("layers.0.ffn") == "layers.0.ffn"  # the first call makes the table
    last = f"layers.{64 * FEW - 1}.ffn"
    assert index.counted_path(last) == last
    assert calls(lambda: index.counted_path(last)) <= 2 * calls(lambda: index.counted_path("layers.0.ffn"))


def test_equal_operations_on_equal_shapes_are_asked_once(monkeypatch):
    asked, parts = [], Linear.parts

    def noted(op, *shapes):
        asked.append((op.out, op.bias, op.borrowed, *shapes))
        return parts(op, *shapes)

    monkeypatch.setattr(Linear, "parts", noted)
    rows = forward_pass(load("nemotron-h-8b")).rows
    assert 0 < len(asked) == len(set(asked)) < sum(isinstance(row.op, Linear) for row in rows)


MANY_KINDS = ("granite-4.0-h-tiny", "zamba2-7b", "bamba-9b", "gemma-4-e4b", "kimi-linear-48b-a3b")


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("name", MANY_KINDS)
def test_a_trace_of_many_layers_calls_13_times_as_much_as_that_of_one_at_most(name):
    one, many = (load(model) for model in ("llama-3.1-8b", name))
    for model in (one, many):
        forward_pass(model)  # modules are imported
    assert calls(lambda: forward_pass(many)) <= 13 * calls(lambda: forward_pass(one))


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("context", [1, 3, 17, 1000])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_cache_of_unknown_length_is_that_of_every_length(context, batch_size):
    for model in (different(FEW), *OTHERS.values()):
        if model.caches:
            counted = prefill_pass(model, batch_size, context)
            assert CacheSize(model).elements(context, batch_size) == counted.cached()


@pytest.mark.long
@pytest.mark.parametrize("reading", READINGS)
def test_work_grows_as_the_number_of_different_layers(tmp_path, reading):
    """Calls of functions are counted, as times depend on the machine; benchmarks/startup.py has those."""

    def answer(n_layers):
        path = tmp_path / f"{n_layers}.yaml"
        path.write_text(different_layers(n_layers, windows=True))
        # what a former question has read of operations would make the second one cheaper
        op_reader._known.clear()
        return calls(lambda: plain(READINGS[reading](subject(str(path), ()).model)))

    answer(1)  # modules are imported
    assert answer(160) < 1.1 * 4 * answer(40)
