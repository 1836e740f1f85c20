"""Variants against one another: whose turn it is, which rounds count, and ratios within rounds.

Times are made up here.
"""

import json
from collections import Counter

import pytest

from archcli.measure.passes import checked_pass
from archcli.modules import GLU, MLP, LayerNorm, PreNorm, RMSNorm
from archcli.modules.spec.request import Request
from archcli.render import rendered
from archcli.wings.running.profile.reports.variants import NONE, MeasuredVariant, parameter_notes, ratios
from archcli.wings.running.profile.reports.versus import versus
from archcli.wings.running.recording.disturbance import Disturbance
from archcli.wings.running.recording.recording import Recording
from archcli.wings.running.runtime.profile.record import Pair, Run
from archcli.wings.running.runtime.profile.variants import TimedVariant, record_variants, timed_variant
from archcli.wings.running.runtime.profile.work import prepare
from archcli.wings.serving.recorded.classes import FRAMEWORK, UNATTRIBUTED
from archcli.wings.serving.recorded.operations import CallTime, OpKey, OpTime
from recordings import GQA, MODELS, decoder, question

NORM, MATMUL = (
    OpKey("layers.0.ffn_norm", "forward", "native_layer_norm"),
    OpKey("layers.0.ffn.up_proj", "forward", "mm"),
)
CLASSES = {NORM: "normalization", MATMUL: "contraction"}
BILLION = 1_000_000_000


def recording(pairs, differing=()):
    """Medians of what the pairs hold, as a real one has them."""
    middle = len(pairs) // 2
    timed = tuple(
        OpTime(*key, CLASSES[key], sorted(pair.spent[key].ns for pair in pairs)[middle] / BILLION, 1)
        for key in CLASSES
    )
    plain, traced = (tuple(getattr(pair, which).seconds for pair in pairs) for which in ("plain", "traced"))
    quiet = Disturbance(2, 0.0, 0.0, 0.0)  # whatever the load of the machine that tests this
    machine = {"device": "cpu"}
    return Recording(timed, (), plain, traced, 0.1, 2, 2, differing, 0, 0, 0.0, machine, disturbance=quiet)


class Clock:
    """Contenders whose passes take what a list says, in rounds; it notes whose turn it was."""

    def __init__(self):
        self.turns = []

    def timed_variant(self, name, walls, norms, switches=()):
        rounds = iter(walls), iter(norms), iter([*switches, *([0] * len(walls))])

        def plain():
            self.turns.append(f"{name} plain")
            return Run(next(rounds[0]), 0, next(rounds[2]))

        def traced():
            self.turns.append(f"{name} traced")
            return Run(1.0, 0, 0), {
                NORM: CallTime(int(next(rounds[1]) * BILLION), 1),
                MATMUL: CallTime(BILLION // 2, 1),
            }

        return TimedVariant(plain, traced, recording)


def silent(what, done, total):
    pass


def test_every_round_begins_with_another_one():
    clock = Clock()
    record_variants([clock.timed_variant(name, [1.0] * 3, [0.1] * 3) for name in "ABC"], 3, silent)
    assert clock.turns[:6] == ["A plain", "B plain", "C plain", "A traced", "B traced", "C traced"]
    assert clock.turns[6:12] == ["B plain", "C plain", "A plain", "B traced", "C traced", "A traced"]
    assert Counter(clock.turns) == {f"{name} {which}": 3 for name in "ABC" for which in ("plain", "traced")}


def test_a_round_in_which_one_was_disturbed_counts_for_none():
    clock = Clock()
    first = clock.timed_variant("A", [1.0, 2.0, 3.0, 4.0], [0.1] * 4)
    second = clock.timed_variant("B", [1.0, 9.0, 3.0, 4.0], [0.1] * 4, switches=[0, 5000, 0, 0])
    found = record_variants([first, second], 4, silent)
    assert [one.walls for one in found] == [(1.0, 3.0, 4.0)] * 2
    assert [one.recording.rejected for one in found] == [1, 1]


def test_where_too_few_rounds_are_left_all_count():
    clock = Clock()
    pair = [clock.timed_variant(name, [1.0, 2.0, 3.0], [0.1] * 3, switches=[5000]) for name in "AB"]
    assert record_variants(pair, 3, silent)[0].walls == (1.0, 2.0, 3.0)


def test_an_interrupt_keeps_whole_rounds():
    def tick(what, done, total):
        if done == 2:
            raise KeyboardInterrupt

    found = record_variants([Clock().timed_variant(name, [1.0] * 5, [0.1] * 5) for name in "AB"], 5, tick)
    assert all(one.recording.partial and len(one.walls) == 2 for one in found)
    with pytest.raises(KeyboardInterrupt):
        record_variants(
            [Clock().timed_variant("A", [1.0], [0.1])], 5, lambda what, done, total: tick(what, 2, total)
        )


def test_a_ratio_is_taken_within_a_round():
    # a slow second round: medians of the times would say 3/2, each round says 2 or 3
    figures = ratios([1.0, 10.0, 2.0], [2.0, 30.0, 4.0])
    assert figures == {"ratio": 2.0, "ratio_q1": 2.0, "ratio_q3": 2.5, "ratio_min": 2.0, "ratio_max": 3.0}
    assert set(ratios([2.0], [3.0]).values()) == {1.5}


@pytest.mark.parametrize(
    ("base", "other"), [([], []), ([1.0, 0.0], [1.0, 1.0]), ([1.0], [0.0]), ([1.0, 1.0], [1.0])]
)
def test_where_there_is_nothing_to_divide_there_is_no_ratio(base, other):
    assert ratios(base, other) == NONE


def compared(norms=(0.1, 0.2, 0.3), walls=(1.0, 1.0, 1.0), **options):
    """MODELS' GPT-2 against itself, with made-up times."""
    clock, counted = Clock(), checked_pass(MODELS["gpt2"], question("forward"))
    base = clock.timed_variant("A", [1.0, 1.0, 1.0], [0.1, 0.1, 0.1])
    timings = record_variants([base, clock.timed_variant("B", walls, norms)], 3, silent)
    texts = ("as it is", "norm.kind=rmsnorm")
    return versus(
        [
            MeasuredVariant(letter, text, MODELS["gpt2"], counted, "fp32", one)
            for letter, text, one in zip("AB", texts, timings, strict=True)
        ],
        {"phase": "forward"},
        **options,
    )


def line(report, name):
    return next(row for row in report.rows if row["class"] == name)


def test_classes_are_compared_with_their_spread():
    found = line(compared(), "normalization")
    assert (found["variant"], found["base_seconds"], found["seconds"]) == (
        "B",
        pytest.approx(0.1),
        pytest.approx(0.2),
    )
    assert [
        found[key] for key in ("ratio", "ratio_q1", "ratio_q3", "ratio_min", "ratio_max")
    ] == pytest.approx([2.0, 1.5, 2.5, 1.0, 3.0])
    assert line(compared(), "contraction")["ratio"] == 1.0


def test_classes_framework_and_the_rest_add_up_to_the_wall_time():
    report = compared(walls=(1.5, 1.5, 1.5))
    for side, wall in (("base_seconds", 1.0), ("seconds", 1.5)):
        assert sum(row[side] for row in report.rows) == pytest.approx(wall)
    # of a traced second 0.5 + 0.1 are taken by A's operations, 0.5 + (0.1, 0.2, 0.3) by B's
    assert line(report, FRAMEWORK)["ratio"] == pytest.approx(0.3 / 0.4)
    assert line(report, UNATTRIBUTED)["ratio"] is None


def test_operators_are_compared_the_largest_difference_first():
    one = compared().totals["variants"][1]["operators"][0]
    assert (one["path"], one["difference_s"], one["ratio"]) == (
        "layers.*.ffn_norm",
        pytest.approx(0.1),
        pytest.approx(2.0),
    )
    assert len(compared(top=1).tables[2].records) == 1
    assert "layers.*" in {each["path"] for each in compared(depth=2).totals["variants"][1]["operators"]}


def test_the_wall_time_is_compared_round_by_round():
    one = compared(walls=(1.0, 3.0, 2.0)).totals["variants"][1]
    assert (one["ratio"], one["ratio_min"], one["ratio_max"], one["params_ratio"], one["flops_ratio"]) == (
        2.0,
        1.0,
        3.0,
        1.0,
        1.0,
    )
    assert compared().totals["variants"][0]["ratio"] is None


def test_a_variant_that_tells_two_stories_is_marked():
    assert "NOT RELIABLE" in compared(walls=(5.0, 5.0, 5.0)).tables[0].title
    assert any(
        "B's plain and traced passes differ by" in note for note in compared(walls=(5.0, 5.0, 5.0)).notes
    )
    sound = compared(norms=(0.29, 0.3, 0.31), walls=(0.9, 0.9, 0.9))
    assert [one["reliable"] for one in sound.totals["variants"]] == [False, True]


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", ["json", "csv", "md", "plain", "table"])
def test_every_format_prints_it(form):
    printed = rendered(compared(), form)
    assert "normalization" in printed
    if form == "json":
        assert json.loads(printed)["totals"]["rounds"] == 3


def test_it_is_readable_at_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = rendered(compared(), "table").splitlines()
    assert max(map(len, lines)) <= 80
    assert any(head.split() == ["class", "A", "B", "ratio", "25%", "75%", "FLOPs", "bytes"] for head in lines)


@pytest.mark.long
def test_real_variants_are_timed_operation_by_operation():
    # norms of the first model are fused kernels, those of the second composites of several operations
    models = [
        decoder(PreNorm(norm=norm, attention=GQA, ffn=MLP(d_ff=48)), norm=norm)
        for norm in (LayerNorm(), RMSNorm())
    ]
    found = record_variants(
        [timed_variant(prepare(model, Request("forward", 1, 4)), "cpu") for model in models], 2, silent
    )
    for timing in found:
        assert timing.recording.differing == ()
        assert len(timing.places) == len(timing.walls) == len(timing.recording.traced_s) == 2
        norms = {place.path for place in timing.places[0] if place.op_class == "normalization"}
        assert {"layers.0.attention_norm", "layers.1.ffn_norm", "final_norm"} <= norms


def widths(ffn):
    return decoder(PreNorm(norm=RMSNorm(), attention=GQA, ffn=ffn))


def test_the_width_that_gives_as_many_parameters_is_told():
    # three matrices of 48 are two of 72
    assert next(parameter_notes(widths(GLU(d_ff=48)), widths(MLP(d_ff=48)))).endswith(
        "d_ff was kept, and d_ff=72 would give as many"
    )
    assert [*parameter_notes(widths(GLU(d_ff=48)), widths(MLP(d_ff=72)))] == []
    assert "d_ff" not in next(parameter_notes(widths(MLP(d_ff=48)), widths(MLP(d_ff=96))))


def test_pairs_hold_what_a_round_gave():
    pair = Pair(Run(1.0, 0, 0), Run(2.0, 0, 0), {})
    assert (pair.plain.disturbed, Run(1.0, 0, 121).disturbed) == (False, True)
