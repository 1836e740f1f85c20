"""Extrapolation from recordings of small stacks to exactly the times of the whole model.

Times per layer are made up here.
"""

from dataclasses import replace

import pytest

from archcli.measure.flops import count_flops
from archcli.measure.passes import checked_pass
from archcli.wings.running.profile.extrapolate.plan import MemoryLimits, plan_of
from archcli.wings.running.profile.extrapolate.recording import extrapolated
from archcli.wings.running.profile.reports.by_kind import by_kind
from archcli.wings.running.profile.reports.one import profile_of
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.memory.beyond.timed_run import run_memory
from archcli.wings.serving.recorded.operations import OpTime
from recordings import BY_KIND, MODELS, decoder, question

DENSE, MIXED = MODELS["deepseek"].groups[0].pattern
DEEP = decoder(*[DENSE] * 2, *[MIXED] * 3, n_layers=12)
"""A pattern of two dense and three mixed layers, two and a half times: 6 dense ones and 6 mixed ones."""
Q, MOE = "attention.q_b_proj", "ffn.experts.up_proj"
DENSE_S, MIXED_S, ROTARY_S, ENDS_S, FRAMEWORK_S = 0.5, 0.25, 0.03125, 2.0, 0.125


def plan(model, phase="forward", available=None, asked=None):
    asked = asked or question(phase)

    def needs(model):
        return run_memory(model, asked, "fp32", "sdpa")

    return plan_of(
        "it",
        model,
        checked_pass(model, asked),
        MemoryLimits(lambda each: checked_pass(each, asked), needs, "fp32", available, 0),
    )


def timed(path, seconds, name="addmm", op_class="contraction"):
    return OpTime(path, "forward", name, op_class, seconds, 1)


def recording(wall_s, *each, framework_s=0.0, **more):
    empty = Recording((), (), (), (), 0.0, 1, 1, (), 0, 0, 0.0, {"device": "cpu"})
    return replace(empty, timed=each, plain_s=(wall_s,), traced_s=(wall_s,), framework_s=framework_s, **more)


def stack(n_layers, layer_s, below, extra_s=0.0):
    """So many layers that each take `layer_s` in one operation and a framework beside it.

    A rotary table and next to no ends come on top.

    Of two layers the first is faster by what the second is slower.
    """
    sway = [0.0] if n_layers == 1 else [-0.0625, 0.0625]
    layers = [timed(f"layers.{i}.{below}", layer_s + sway[i]) for i in range(n_layers)]
    wall_s = 0.25 + ROTARY_S * bool(n_layers) + n_layers * (layer_s + FRAMEWORK_S + extra_s)
    table = [timed("rotary.0", ROTARY_S, "mul", "elementwise")] if n_layers else []
    return recording(
        wall_s,
        timed("final_norm", 0.125),
        *table,
        *layers,
        framework_s=0.125 + n_layers * FRAMEWORK_S,
        page_faults=n_layers,
    )


def recordings(mixed=(1, 2), extra_s=0.0):
    ends = recording(
        ENDS_S,
        timed("lm_head", 1.5),
        timed("", 0.125, "arange", "framework"),
        timed("final_norm", 0.125),
        framework_s=0.25,
        rejected=2,
    )
    found = {f"{n} x layers.0": stack(n, DENSE_S, Q, extra_s) for n in (1, 2)}
    found |= {f"{n} x layers.2" if n else "no layer": stack(n, MIXED_S, MOE, extra_s) for n in mixed}
    return {"embedding and head": ends} | found


WALL = (
    ENDS_S + 6 * (DENSE_S + FRAMEWORK_S) + 6 * (MIXED_S + FRAMEWORK_S) + 5 * ROTARY_S
)  # one rotary table a place of the pattern


def test_the_wall_time_is_that_of_the_ends_and_every_layer():
    assert extrapolated(plan(DEEP), recordings()).plain_s == (WALL,)


def test_a_slope_against_no_layer_is_that_of_one_layer():
    whole = plan(DEEP)
    dense, mixed = whole.pairs
    lowered = replace(
        whole,
        pairs=(
            dense,
            replace(mixed, n_layers=0, fewer=replace(mixed.fewer, name="no layer"), more=mixed.fewer),
        ),
    )
    found = extrapolated(lowered, recordings(mixed=(0, 1)))
    assert found.plain_s == (WALL,)
    assert sum(each.seconds for each in found.timed if each.path.endswith(MOE)) == 6 * MIXED_S


def test_operations_are_those_of_a_layer_at_every_place_it_is_counted_at():
    found = {each.path: (each.seconds, each.calls) for each in extrapolated(plan(DEEP), recordings()).timed}
    # 12 layers in a pattern of 5: places 0 and 1 are there three times, places 2, 3 and 4 twice
    layers = {f"layers.{i}.{Q}": (3 * DENSE_S, 3) for i in (0, 1)} | {
        f"layers.{i}.{MOE}": (2 * MIXED_S, 2) for i in (2, 3, 4)
    }
    tables = {f"rotary.{i}": (ROTARY_S, 1) for i in range(5)}
    assert found == layers | tables | {"lm_head": (1.5, 1), "final_norm": (0.125, 1), "": (0.125, 1)}


def test_what_belongs_to_no_operation_grows_with_the_layers():
    found = extrapolated(plan(DEEP), recordings())
    assert found.framework_s == 0.25 + 12 * FRAMEWORK_S
    assert found.page_faults == 12
    assert found.rejected == 2
    assert (found.executed, found.counted, found.extrapolated) == (5, 5, True)


def test_a_stack_whose_trace_differs_makes_the_whole_unreliable():
    several = recordings()
    several["1 x layers.2"] = replace(several["1 x layers.2"], differing=("lm_head:mm",))
    assert extrapolated(plan(DEEP), several).differing == ("1 x layers.2: lm_head:mm",)


def test_ends_with_a_layer_lend_it_to_the_whole():
    """T5: 2 layers of an encoder and 3 of a decoder, one of each measured with the ends."""
    write, read = 0.25, 0.5
    several = {
        "embedding and head": recording(
            2.0, timed("lm_head", 1.0), timed("encoder.layers.0.ffn.up_proj", write)
        )
    }
    for stem, seconds in (("encoder", write), ("decoder", read)):
        for n in (1, 2):
            each = [timed(f"{stem}.layers.{i}.ffn.up_proj", seconds) for i in range(n)]
            several[f"{n} x {stem}.layers.0"] = recording(1.0 + n * seconds, *each, framework_s=n * seconds)
    found = extrapolated(plan(MODELS["t5"]), several)
    assert found.plain_s == (2.0 + 1 * write + 2 * read,)
    assert found.framework_s == 1 * write + 2 * read
    assert {each.path: each.seconds for each in found.timed} == {
        "lm_head": 1.0,
        "encoder.layers.0.ffn.up_proj": 2 * write,
        "decoder.layers.0.ffn.up_proj": 3 * read,
    }


def test_no_model_is_quicker_than_its_embedding_and_head():
    several = recordings()
    several["2 x layers.0"] = replace(several["2 x layers.0"], plain_s=(0.0,))
    assert extrapolated(plan(DEEP), several).plain_s == (ENDS_S,)


def report(extra_s=0.0, model=DEEP, phase="forward", **more):
    whole = plan(model, phase)
    several = recordings(extra_s=extra_s)
    found = profile_of(
        model,
        checked_pass(model, question(phase)),
        extrapolated(whole, several),
        {"phase": phase, "dtype": "fp32"},
        **more,
    )
    return by_kind(found, whole, several)


def test_the_report_says_that_it_is_extrapolated():
    found = report()
    assert found.totals["extrapolated"] is True
    assert found.tables[0].title == "Where the time goes, extrapolated"
    assert any(note.startswith("EXTRAPOLATED from small stacks") for note in found.notes)
    assert sum(each["time_share"] for each in found.totals["by_class"].values()) == pytest.approx(
        1.0, abs=1e-12
    )


@pytest.mark.long
def test_each_kind_has_its_figures():
    dense, mixed = report().totals["kinds"]
    assert (dense["kind"], dense["what"], dense["layers"]) == ("layers.0", "mla, glu", 6)
    assert dense["walls_s"] == {"1": 0.25 + ROTARY_S + 0.625, "2": 0.25 + ROTARY_S + 1.25}
    assert (dense["slope_s"], dense["operations_s"], dense["by_class_s"]) == (
        DENSE_S + FRAMEWORK_S,
        DENSE_S,
        {"contraction": DENSE_S},
    )
    assert (mixed["slope_s"], mixed["operations_s"], mixed["share"]) == (0.375, MIXED_S, 6 * 0.375 / WALL)
    assert mixed["memory"]["needed_bytes"] > 0
    assert report().totals["ends"]["wall_s"] == ENDS_S


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(("part", "sound"), [(0.09, True), (-0.09, True), (0.11, False), (-0.11, False)])
def test_two_estimates_are_told_and_where_they_part_the_headline_says_so(part, sound):
    found = report(extra_s=(WALL / (1 - part) - WALL) / 12)  # operations and framework explain all of WALL
    estimates = found.totals["estimates"]
    assert estimates["operations_and_framework_s"] == pytest.approx(WALL)
    assert estimates["slope_s"] == found.totals["wall_s"] == pytest.approx(WALL / (1 - part))
    assert found.totals["reliable"] is sound
    assert ("NOT RELIABLE HERE" in found.tables[0].title) is not sound
    assert (
        any(
            "the sum of operations and the slope of the wall time part by 11%" in note for note in found.notes
        )
        is not sound
    )
    assert not any("plain and traced passes differ" in note for note in found.notes)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "phase"), BY_KIND)
def test_flops_and_bytes_are_those_of_the_whole_model(name, phase):
    whole = plan(MODELS[name], phase)
    several = {small.name: recording(1.0, timed("lm_head", 0.5)) for small in whole.stacks()}
    counted = checked_pass(MODELS[name], question(phase))
    found = profile_of(
        MODELS[name], counted, extrapolated(whole, several), {"phase": phase, "dtype": "fp32"}
    ).totals
    theirs = count_flops(MODELS[name], question(phase)).totals
    assert found["flops_by_class"] == theirs["by_class"]
    assert (found["matmul_flops"], found["other_flops"]) == (theirs["matmul_flops"], theirs["other_flops"])
    pieces = [
        piece
        for row in counted.rows
        for part in row.parts
        for piece in (part, *part.backward * (phase == "train"))
        for _ in range(row.times)
    ]
    assert found["bytes"] == 4 * sum(piece.read + piece.written for piece in pieces)


def cache_notes(weights_mib, cache_mib, whole_mib):
    """Notes on caches of so much, beside stacks and a model of so much."""
    whole, several = plan(DEEP), recordings()
    pairs = tuple(
        replace(pair, more=replace(pair.more, memory=pair.more.memory | {"weights_bytes": weights_mib << 20}))
        for pair in whole.pairs
    )
    sized = replace(whole, pairs=pairs, weights_bytes=whole_mib << 20, cache_bytes=cache_mib << 20)
    counted = checked_pass(DEEP, question("forward"))
    found = profile_of(DEEP, counted, extrapolated(sized, several), {"phase": "forward", "dtype": "fp32"})
    found = by_kind(found, sized, several)
    notes = [note for note in found.notes if note.startswith("Caches of")]
    assert [note for note in found.totals["warnings"] if note.startswith("Caches of")] == notes
    return notes


def test_a_cache_that_holds_a_part_of_the_weights_is_told_with_that_part():
    """480 of 1,665 MiB are 29%, of 160,000 MiB 0.3%."""
    dense, mixed = cache_notes(weights_mib=1665, cache_mib=480, whole_mib=160_000)
    assert dense == (
        "Caches of 480.0 MiB may hold 29% of the weights of layers like layers.0 (1,665.0 MiB in the larger "
        "stack), and at most 0.3% of the whole model's: these layers may look faster than they are."
    )
    assert "layers like layers.2" in mixed


@pytest.mark.long
def test_a_cache_that_holds_all_of_small_layers_is_told():
    assert len(cache_notes(weights_mib=10, cache_mib=32, whole_mib=320)) == 2
    assert "may hold 100% of the weights" in cache_notes(10, 32, 320)[0]


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(("weights", "cache", "whole"), [(1665, 400, 160_000), (10, 32, 30), (100, 64, 120)])
def test_a_cache_that_holds_as_much_of_the_whole_model_is_no_matter(weights, cache, whole):
    """Less than a quarter of the stack; all of both; 64 of 100 and 53 of 120 MiB."""
    assert cache_notes(weights, cache, whole) == []
