"""What a survey says of a model, against published tables, and how figures spread, worked out by hand."""

import csv
from pathlib import Path

import pytest

from archcli.load.presets import presets
from archcli.load.source import load_preset, load_text
from archcli.measure.survey.columns import describe
from archcli.modules import (
    GLU,
    BatchNorm,
    Group,
    LayerNorm,
    MixtureOfExperts,
    MultiHeadLatentAttention,
    Parallel,
    PostNorm,
    PreNorm,
    ResidualPostNorm,
    Rope,
    Sandwich,
)
from small import NORM, attention, decoder, layer
from table import every_row, sampled_rows

PUBLISHED = Path(__file__).parents[1] / "published"


def table(name):
    with (PUBLISHED / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


SHAPES = {row["name"]: row for row in table("shapes")}
FIGURES = [(row["column"], name, row["figure"]) for row in table("figures") for name in row["models"].split()]

LAYER = (
    "kind: pre_norm, attention: {{kind: mha, n_heads: {n_heads}, head_dim: {head_dim}{causal}}}, ffn: {ffn}"
)
NETWORKS = {
    "mlp": "{{kind: mlp, d_ff: {d_ff}}}",
    "glu": "{{kind: glu, d_ff: {d_ff}}}",
    "moe": "{{kind: moe, n_experts: 8, top_k: 2, expert: {{kind: glu, d_ff: {d_ff}}}}}",
}
HEAD = "vocab_size: {vocab_size}\nd_model: {d_model}\nnorm: rmsnorm\n"


def groups(shape, **changes):
    ffn = NETWORKS[shape["ffn"]].format(**shape)
    block = LAYER.format(**{**shape, "ffn": ffn, "causal": "", **changes})
    return f"groups: [{{n_layers: {shape['n_layers']}, layer: {{{block}}}}}]"


def of_shape(shape):
    """A model of the sizes a source states."""
    head = HEAD.format(**shape)
    if shape["kind"] == "decoder":
        return load_text(head + groups(shape), shape["name"]).model
    cross = f"}}, cross_attention: {{kind: cross, n_heads: {shape['n_heads']}, head_dim: {shape['head_dim']}"
    halves = (
        f"encoder: {{{groups(shape, causal=', causal: false')}}}\ndecoder: {{{groups(shape, causal=cross)}}}"
    )
    return load_text(f"kind: encoder_decoder\n{head}{halves}", shape["name"]).model


def model_called(name):
    """The preset, or where there is none, a model of the published sizes."""
    return load_preset(name).model if name in presets() else of_shape(SHAPES[name])


@sampled_rows(("column", "name", "figure"), FIGURES, 4)
def test_a_model_has_the_published_figure(column, name, figure):
    value = describe(name, model_called(name))[column]
    assert f"{value:.{len(figure.partition('.')[2])}f}" == figure


def test_every_source_is_named():
    assert all(row["source"] for row in [*table("shapes"), *table("figures")])


def of(*groups, **changes):
    return describe("small", decoder(*groups, **changes))


def test_words_of_layers_that_differ_stand_with_how_many_they_are():
    windowed = layer(attention(window=16, position=Rope(theta=100.0)))
    found = of(
        Group(n_layers=5, pattern=(windowed, windowed, layer())),
        Group(n_layers=2, layer=layer(attention(chunk=4))),
    )
    assert found["pattern"] == "window 16 ×4, full ×1, chunk 4 ×2"
    assert found["position"] == "rope ×4, none ×3"
    assert (found["rope_theta"], found["mixed"]["rope_theta"]) == (100, [[100, 4], [None, 3]])
    assert (found["attention"], found["n_layers"], found["stacks"]) == ("gqa", 7, "decoder 7")


def test_figures_of_layers_that_differ_are_those_of_most_and_all_are_listed():
    found = of(
        Group(n_layers=1, layer=layer(ffn=GLU(d_ff=32))), Group(n_layers=2, layer=layer(ffn=GLU(d_ff=12)))
    )
    assert (found["d_ff"], found["d_ff_ratio"]) == (12, 12 / 8)
    assert found["mixed"] == {
        key: found["mixed"][key] for key in ("d_ff", "d_ff_ratio", "active_d_ff", "active_d_ff_ratio")
    }
    assert found["mixed"]["d_ff_ratio"] == [[4.0, 1], [1.5, 2]]


def test_a_token_meets_top_k_experts_and_the_shared_one():
    moe = MixtureOfExperts(n_experts=6, top_k=2, expert=GLU(d_ff=5), shared=GLU(d_ff=7))
    found = of(Group(n_layers=1, layer=layer()), Group(n_layers=2, layer=layer(ffn=moe)))
    assert (found["d_ff"], found["active_d_ff"]) == (5, 2 * 5 + 7)
    assert (found["n_experts"], found["top_k"], found["expert_ratio"]) == (6, 2, 3.0)
    assert found["mixed"]["n_experts"] == [[None, 1], [6, 2]]
    assert found["active_share"] == found["active_params"] / found["params"]
    assert found["params"] - found["active_params"] == 2 * 4 * 3 * 8 * 5


def test_a_dense_model_has_no_figures_of_experts():
    found = of()
    assert [found[key] for key in ("n_experts", "top_k", "expert_ratio", "active_share")] == [None] * 4


def test_a_latent_is_what_is_cached_and_queries_have_both_their_parts():
    """DeepSeek-V2's 576 elements per layer: arXiv:2405.04434 section 2.1.4."""
    sizes = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    latent = MultiHeadLatentAttention(n_heads=2, **sizes, position=Rope(), latent_norm=NORM)
    found = of(Group(n_layers=3, layer=layer(latent)))
    assert found["kv_bytes_per_token"] == 3 * 576 * 2
    assert (found["n_kv_heads"], found["head_dim"], found["head_ratio"]) == (None, 128 + 64, 2 * 192 / 8)


def test_the_cache_of_grouped_heads():
    assert of()["kv_bytes_per_token"] == 3 * (2 * 2 * 2) * 2


@every_row(
    ("block", "placement", "wiring"),
    [
        (PostNorm, "post", "serial"),
        (Sandwich, "sandwich", "serial"),
        (ResidualPostNorm, "after", "serial"),
        (Parallel, "pre", "parallel"),
        (lambda **parts: Parallel(n_norms=2, **parts), "pre", "parallel"),
        (lambda **parts: layer(parts["attention"], parts["ffn"]), "pre", "serial"),
    ],
)
def test_where_norms_are_and_how_a_block_is_wired(block, placement, wiring):
    found = of(Group(n_layers=1, layer=block(attention=attention(), ffn=GLU(d_ff=12), norm=NORM)))
    assert (found["placement"], found["wiring"], found["norm"]) == (placement, wiring, "rmsnorm")


@every_row("norm", [BatchNorm(), LayerNorm(), NORM], ids=lambda norm: norm.kind)
@every_row("parts", [{"ffn": None}, {"attention": None}, {}], ids=["attention", "ffn", "both"])
@every_row(
    ("block", "placement"),
    [
        (PreNorm, "pre"),
        (Sandwich, "sandwich"),
        (PostNorm, "post"),
        (ResidualPostNorm, "after"),
        (Parallel, "pre"),
    ],
)
def test_every_norm_has_a_place_in_every_layer(block, placement, parts, norm):
    parts = {"attention": attention(), "ffn": GLU(d_ff=12)} | parts
    found = of(Group(n_layers=2, layer=block(norm=norm, **parts)))
    assert (found["placement"], found["norm"]) == (placement, norm.kind)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        (
            "gpt2",
            {
                "position": "learned",
                "norm": "layernorm",
                "ffn": "mlp",
                "activation": "gelu_tanh",
                "bias": "attention + ffn",
            },
        ),
        (
            "qwen2-7b",
            {"bias": "attention", "attention": "gqa", "n_kv_heads": 4, "activation": "silu", "ffn": "glu"},
        ),
        ("gpt-j-6b", {"bias": "ffn", "wiring": "parallel", "attention": "mha"}),
        ("falcon-7b", {"wiring": "parallel", "attention": "mqa", "n_kv_heads": 1, "tied": True}),
        (
            "gemma-2-9b",
            {
                "pattern": "window 4096 ×21, full ×21",
                "stability": "softcap + logit softcap",
                "placement": "sandwich",
            },
        ),
        ("qwen3-8b", {"stability": "qk_norm", "bias": "none", "rope_theta": 1000000}),
        (
            "deepseek-v3",
            {
                "attention": "mla",
                "n_experts": 256,
                "top_k": 8,
                "expert_ratio": 32.0,
                "d_ff": 2048,
                "rope_scaling": "yarn",
            },
        ),
    ],
)
def test_what_is_known_of_presets(name, facts):
    found = describe(name, load_preset(name).model)
    assert {key: found[key] for key in facts} == facts


def test_both_halves_of_an_encoder_decoder():
    found = describe("t5", of_shape(SHAPES["t5-base"] | {"n_layers": "3"}))
    assert (found["stacks"], found["n_layers"]) == ("encoder 3, decoder 3", 3)
    assert (found["attention"], found["pattern"]) == ("mha ×3, mha + cross ×3", "bidirectional ×3, full ×3")
    assert found["kv_bytes_per_token"] == 3 * 2 * (12 * 64) * 2


def test_each_half_has_positions_of_its_own():
    block = "{kind: post_norm, attention: {kind: mha, n_heads: 2}, ffn: {kind: mlp, d_ff: 8}}"
    embedding = "embedding: {position: {kind: learned, max_seq_len: 9}}"
    layers = f"groups: [{{n_layers: 2, layer: {block}}}]"
    halves = f"encoder: {{{layers}, position: sinusoidal}}\ndecoder: {{{layers}}}"
    text = f"kind: encoder_decoder\nvocab_size: 50\nd_model: 8\nnorm: layernorm\n{embedding}\n{halves}\n"
    assert describe("t", load_text(text, "t").model)["position"] == "sinusoidal ×2, learned ×2"
