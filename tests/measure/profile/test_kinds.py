"""Kinds of layer and the stacks they are measured in.

Found in any model, counted as in the whole one, within the memory there is.
"""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.passes import checked_pass
from archcli.modules import GLU, MixtureOfExperts
from archcli.wings.running.profile.extrapolate.plan import MemoryLimits, plan_of
from archcli.wings.serving.memory.beyond.timed_run import run_memory
from archcli.wings.serving.predict.calibrate.cut import cut, depth, kinds_of
from archcli.wings.serving.recorded.machine import cache_size
from recordings import BY_KIND, MODELS, question
from table import every_row

GIB = 2**30
KINDS = {
    "gemma-2-9b": [("layers.0", "gqa window 4096, glu", 21), ("layers.1", "gqa, glu", 21)],
    "gemma-3-1b": [
        ("layers.0", "mqa window 512, glu", 22),
        ("layers.5", "mqa, glu", 4),
    ],  # 26 layers, every 6th global
    "deepseek-v3": [("layers.0", "mla, glu", 3), ("layers.3", "mla, moe", 58)],
    "mixtral-8x7b": [("layers.0", "gqa, moe", 32)],
    "llama-3.1-70b": [("layers.0", "gqa, glu", 80)],
    "t5-base": [("encoder.layers.0", "mha, mlp", 12), ("decoder.layers.0", "mha + cross, mlp", 12)],
}


@every_row(("name", "expected"), KINDS.items(), ids=KINDS)
def test_kinds_of_layer(name, expected):
    assert [(kind.path, kind.description, kind.count) for kind in kinds_of(load(name).model)] == expected


def sizing(asked, available=None, cache=0, dtype="bf16"):
    return MemoryLimits(
        lambda model: checked_pass(model, asked),
        lambda model: run_memory(model, asked, dtype, "sdpa"),
        dtype,
        available,
        cache,
    )


def plan(model, asked, **room):
    return plan_of("it", model, checked_pass(model, asked), sizing(asked, **room))


def cost(rows):
    """FLOPs and elements moved of rows, there and back."""
    parts = [(row.times, piece) for row in rows for part in row.parts for piece in (part, *part.backward)]
    return sum(times * part.flops for times, part in parts), sum(
        times * (part.read + part.written) for times, part in parts
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "phase"), BY_KIND)
def test_a_layer_of_a_stack_costs_what_it_costs_in_the_model(name, phase):
    whole = checked_pass(MODELS[name], question(phase))
    found = plan(MODELS[name], question(phase))
    assert found.pairs
    for pair in found.pairs:
        theirs = [row for row in whole.rows if row.path.startswith(f"{pair.kind.path}.")]
        first = pair.kind.layer(0)
        for small, n_layers in ((pair.fewer, 1), (pair.more, 2)):
            ours = {row.path: row for row in small.counted.rows if row.path.startswith(f"{first}.")}
            assert {
                row.path.replace(pair.kind.path, first): (row.inputs, row.weights, row.parts)
                for row in theirs
            } == {path: (row.inputs, row.weights, row.parts) for path, row in ours.items()}
            assert {row.times for row in ours.values()} == {n_layers}


def inside(row):
    return {"layers", "rotary"} & set(row.path.split("."))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "phase"), BY_KIND)
def test_embedding_and_head_cost_what_they_cost_in_the_model(name, phase):
    whole, ends = (
        checked_pass(MODELS[name], question(phase)),
        plan(MODELS[name], question(phase)).ends.counted,
    )
    assert cost(row for row in ends.rows if not inside(row)) == cost(
        row for row in whole.rows if not inside(row)
    )


@pytest.mark.long
def test_embedding_and_head_are_measured_without_layers_where_that_runs():
    alone, shares, pair = (plan(MODELS[name], question("forward")) for name in ("gpt2", "t5", "whisper"))
    assert (len([row for row in alone.ends.counted.rows if inside(row)]), alone.held) == (0, frozenset())
    assert shares.held == pair.held == {"encoder.layers.0", "decoder.layers.0"}


def test_an_encoder_that_does_not_run_is_not_measured():
    found = plan(MODELS["t5"], question("decode"))
    assert [pair.kind.path for pair in found.pairs] == ["decoder.layers.0"]
    assert found.held == {"decoder.layers.0"}


def test_the_vocabulary_is_measured_once():
    found = plan(load("llama-3.1-70b").model, question("forward"))
    table = 128256 * 8192
    assert found.ends.counted.params() == 2 * table + 8192  # the table, the head, the last norm
    assert all(pair.more.counted.params() < 2 * 856_000_000 for pair in found.pairs)


def forms(name, available, phase="forward", cache=32 << 20, overrides=(), **more):
    """(layers, distinct experts) of each larger stack."""
    found = plan(
        load(name, overrides).model, question(phase), available=int(available * GIB), cache=cache, **more
    )
    return [(pair.n_layers + 1, pair.more.distinct) for pair in found.pairs]


def test_two_layers_are_measured_where_they_fit():
    assert forms("llama-3.1-70b", 24) == forms("mixtral-8x7b", 24) == [(2, None)]


def test_one_layer_against_none_where_two_do_not_fit():
    assert forms("mixtral-8x7b", 4) == [(1, None)]
    assert forms("llama-3.1-405b", 20, dtype="fp32") == [(1, None)]


def test_halves_that_wait_for_each_other_need_room_for_two_layers():
    assert forms("t5-11b", 4) == [(2, None), (2, None)]
    assert "layers like encoder.layers.0 (mha, mlp) need two " in refusal("t5-11b", 1)


def test_experts_share_memory_where_one_layer_does_not_fit():
    dense, (n_layers, distinct) = forms("deepseek-v3", 20)
    assert dense == (2, None)
    assert n_layers == 2
    others = run_memory(load("deepseek-v3").model, question("forward"), "bf16", "sdpa")["torch_bytes"]
    expert = 3 * 7168 * 2048 * 2
    assert distinct * 2 * expert < 0.8 * 20 * GIB - others < (distinct + 20) * 2 * expert


def test_a_stack_of_shared_experts_needs_less_by_those_that_have_no_memory():
    found = plan(load("deepseek-v3").model, question("forward"), available=20 * GIB, cache=32 << 20)
    pair = found.pairs[1]
    whole = run_memory(pair.more.model, pair.more.counted.request, "bf16", "sdpa")
    saved = 2 * (256 - pair.more.distinct) * 3 * 7168 * 2048 * 2
    assert pair.more.memory["weights_bytes"] == whole["weights_bytes"] - saved
    assert pair.more.needed == whole["needed_bytes"] - saved <= 20 * GIB
    assert (pair.fewer.distinct, pair.fewer.experts) == (pair.more.distinct, 256)


def refusal(*args, **more):
    with pytest.raises(ArchError) as refused:
        forms(*args, **more)
    return str(refused.value)


def test_training_shares_no_experts_and_is_refused_with_figures():
    told = refusal("deepseek-v3", 20, phase="train", overrides=["mtp=null"])
    assert (
        "it in bf16 does not fit one kind of layer at a time either: layers like layers.3 (mla, moe) "
        "need two " in told
    )
    assert "this machine has 20.0 GiB available" in told
    assert "layers.0" not in told


def test_experts_of_an_encoder_decoder_share_memory_but_in_training():
    # two layers of 64 experts of 19 MB, each with a gradient of its own
    t5, experts = load("t5-base").model, MixtureOfExperts(n_experts=64, top_k=2, expert=GLU(d_ff=4096))
    [group] = t5.decoder.groups
    groups = (group.replace(layer=group.layer.replace(ffn=experts)),)
    model = t5.replace(decoder=t5.decoder.replace(groups=groups))
    assert plan(model, question("forward"), available=2 * GIB).pairs[1].more.distinct in range(2, 64)
    with pytest.raises(ArchError, match=r"decoder\.layers\.0"):
        plan(model, question("train"), available=4 * GIB)


def test_equal_layers_of_two_stacks_are_two_kinds():
    t5 = load("t5-base").model
    twin = t5.replace(encoder=t5.encoder.replace(groups=t5.decoder.groups))
    assert [(kind.path, kind.count) for kind in kinds_of(twin)] == [
        ("encoder.layers.0", 12),
        ("decoder.layers.0", 12),
    ]


def test_experts_that_would_stay_in_a_cache_share_nothing():
    assert forms("deepseek-v3", 20, cache=512 << 20)
    assert "layers.3" in refusal("deepseek-v3", 20, cache=2 << 30)


def test_all_that_does_not_fit_is_told_at_once():
    told = refusal("deepseek-v3", 0.5)
    assert all(
        words in told
        for words in (
            "embedding and head need ",
            "layers like layers.0 (mla, glu)",
            "layers like layers.3 (mla, moe)",
        )
    )


def test_a_cut_model_has_the_first_layers_of_each_stack():
    deepseek = load("deepseek-v3").model
    assert depth(deepseek) == 3 + 58
    assert [(kind.path, kind.count) for kind in kinds_of(cut(deepseek, 5))] == [
        ("layers.0", 3),
        ("layers.3", 2),
    ]
    assert [(kind.path, kind.count) for kind in kinds_of(cut(deepseek, 2))] == [("layers.0", 2)]
    assert [kind.count for kind in kinds_of(cut(load("t5-base").model, 3))] == [3, 3]
    assert [kind.count for kind in kinds_of(cut(load("gemma-3-1b").model, 13))] == [11, 2]


def test_the_cache_is_that_of_the_last_level_of_usable_processors(tmp_path):
    assert cache_size(tmp_path) is None
    levels = {"index0": ("1", "32K"), "index2": ("2", "1024K"), "index3": ("3", "16384K")}
    for cpu in range(4):
        for index, (level, size) in levels.items():
            folder = tmp_path / f"cpu{cpu}" / "cache" / index
            folder.mkdir(parents=True)
            (folder / "level").write_text(f"{level}\n")
            (folder / "size").write_text(f"{size}\n")
            (folder / "shared_cpu_list").write_text(
                ("0-1" if cpu < 2 else "2-3") if index == "index3" else str(cpu)
            )
    assert cache_size(tmp_path, range(4)) == 2 * 16384 * 1024
    assert cache_size(tmp_path, [1, 0]) == cache_size(tmp_path, [3]) == 16384 * 1024
