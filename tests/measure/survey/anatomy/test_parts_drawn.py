"""What the drawing of known architectures says: parts, heads, caches, states, experts, gates."""

from functools import cache

import pytest

from archcli.load.source import load
from archcli.wings.drawing.anatomy.anatomy import anatomy
from archcli.wings.drawing.anatomy.draft import INPUT, OUTPUT


@cache
def drawn(name):
    return anatomy(load(name).model)


def part(name, title):
    return next(part for part in drawn(name).parts if part.title == title)


def nodes(name, title):
    """The nodes of a part by the last step of their id."""
    return {node.id.rpartition(".")[2]: node for node in part(name, title).nodes}


def test_queries_keys_and_values_have_heads_in_groups_and_keys_and_values_are_cached():
    of = nodes("llama-3.1-8b", "Grouped-query attention")
    q, k, v = (of[f"{name}_proj"] for name in "qkv")
    assert (q.heads.count.value, q.heads.width.value, q.heads.groups.value) == (32, 128, 8)
    assert (k.heads.count.value, k.heads.groups) == (8, None)
    # 8 heads of 128 in bf16
    assert [bar.cached and bar.cached.value for bar in (q, k, v)] == [None, 8 * 128 * 2, 8 * 128 * 2]
    assert [bar.turned and bar.turned.value for bar in (q, k, v)] == [1.0, 1.0, None]
    assert of["attend"].reads == (q.id, k.id, v.id)
    assert of["attend"].mask.kind == "causal"
    assert of["attend"].width.value == 32 * 128


def test_latent_attention_caches_the_latent_and_the_rotary_key():
    of = nodes("deepseek-v3", "Multi-head latent attention")
    latent = of["kv_a_proj"]
    pieces = [(piece.width.value, piece.label, piece.rotated, piece.cached) for piece in latent.pieces]
    assert pieces == [(512, "latent", False, True), (64, "k", True, True)]
    assert latent.cached.value == (512 + 64) * 2
    assert [piece.rotated for piece in of["q_b_proj"].pieces] == [False, True]
    assert [piece.label for piece in of["kv_b_proj"].pieces] == ["k", "v"]
    assert set(of["attend"].reads) == {of["q_b_proj"].id, of["kv_b_proj"].id, latent.id}


def test_a_part_of_each_head_is_rotated():
    q = nodes("qwen3-next-80b-a3b", "Grouped-query attention")["q_proj"]
    assert q.turned.value == 0.25


def test_gate_and_up_are_one_product_with_two_bars():
    of = nodes("llama-3.1-8b", "SwiGLU network")
    gate = of["gate_proj"]
    assert [piece.width.value for piece in gate.stacked] == [14336, 14336]
    assert gate.params.value == 2 * 4096 * 14336
    assert gate.lines == ("SiLU(gate) × up",)
    assert list(of) == [INPUT, "gate_proj", "down_proj", OUTPUT]


def test_a_gate_behind_a_scan_stays_a_branch():
    of = nodes("qwen3-next-80b-a3b", "Gated DeltaNet")
    assert of["norm_gated"].role == "join"
    assert of["g_proj"].stacked == ()


def test_a_scan_holds_its_state_and_what_its_convolutions_hold():
    (held,) = nodes("qwen3-next-80b-a3b", "Gated DeltaNet")["scan"].held
    assert (held.count.value, held.rows.value, held.columns.value) == (32, 128, 128)
    # the state, and four inputs of the convolutions of q, k and v, in bf16
    assert held.bytes.value == 2 * (32 * 128 * 128 + 4 * (2048 + 2048 + 4096))


def test_a_mixture_has_its_router_its_choice_one_expert_and_the_shared_one():
    of = nodes("deepseek-v3", "Mixture of experts")
    experts, shared, router = of["experts"], of["shared"], of["route"]
    assert (experts.choice.chosen.value, experts.choice.count.value) == (8, 256)
    assert experts.choice.scores == router.label == "sigmoid"
    assert experts.choice.groups.value == 8
    assert router.width.value == 256
    assert [node.role for node in experts.inner] == ["input", "matrix", "matrix", "output"]
    assert experts.inner[1].width.value == 2048
    assert (shared.hue, shared.role, shared.choice) == ("shared", "experts", None)


def test_a_scalar_gate_is_a_word():
    assert nodes("qwen3-next-80b-a3b", "Mixture of experts")["shared"].lines == ("gated by σ",)


def test_cross_attention_reads_the_encoder():
    of = nodes("whisper-small", "Cross-attention")
    (memory,) = [node for node in of.values() if node.role == "input" and node.id != INPUT]
    assert memory.label == "encoder"
    assert of["k_proj"].reads == of["v_proj"].reads == (memory.id,)


def test_a_table_of_positions_is_left_out():
    kind = drawn("deberta-v3-base").kinds[0]
    assert [node.id for node in kind.nodes if node.role == "input"] == [INPUT]


def test_a_window_is_a_small_matrix_of_its_shape():
    mask = nodes("mistral-7b-v0.1", "Grouped-query attention")["attend"].mask
    assert (mask.kind, mask.window.value) == ("window", 4096)
    assert mask.cells[-1] == (False,) * 6 + (True,) * 3
    assert sum(map(sum, mask.cells)) == 1 + 2 + 7 * 3


def test_equal_parts_have_one_letter():
    kinds = drawn("deepseek-v3").kinds
    letters = [[node.letter for node in kind.nodes if node.letter] for kind in kinds]
    assert letters == [["A", "B"], ["A", "C"]]


@pytest.mark.parametrize(
    ("name", "spine"),
    [
        ("llama-3.1-8b", ["attention_residual", "ffn_residual"]),
        ("bert-base-uncased", ["attention_residual", "attention_norm", "ffn_residual", "ffn_norm"]),
        ("gemma-2-2b", ["attention_residual", "ffn_residual"]),
        ("gpt-j-6b", ["attention_residual", "ffn_residual"]),
        ("whisper-small", ["attention_residual", "cross_attention_residual", "ffn_residual"]),
        ("falcon-h1-0.5b", ["mixer_residual", "ffn_residual"]),
        ("zamba-7b", ["mixer_residual"]),
    ],
)
def test_the_spine_is_the_residual_stream(name, spine):
    kind = drawn(name).kinds[-1]
    assert [node.rpartition(".")[2] for node in kind.spine] == [INPUT, *spine, OUTPUT]


def test_two_branches_of_a_mixer_are_two_parts():
    cell = drawn("falcon-h1-0.5b").strips[0].cells[0]
    assert [hue for hue, _ in cell.mixers] == ["attention", "recurrent"]
