"""Which layers a counted layer stands for, by row path and by YAML path."""

from archcli.load.source import load
from archcli.modules.models.layers import LayerIndex, folded_path
from sources import OTHERS
from table import every_row

GEMMA = LayerIndex(load("gemma-3-1b").model)  # 26 layers in a pattern of 6, the last of which is global


def test_each_layer_of_a_pattern_stands_for_those_like_it():
    assert [(layer.path, layer.yaml_path, layer.times) for layer in GEMMA] == [
        (f"layers.{i}", f"groups.0.pattern.{i}", 5 if i < 2 else 4) for i in range(6)
    ]
    assert list(GEMMA.span("layers.1.attention.q_proj")) == [1, 7, 13, 19, 25]
    assert GEMMA.built_paths("layers.5.ffn") == [f"layers.{i}.ffn" for i in (5, 11, 17, 23)]


@every_row(
    ("built", "counted"),
    [
        ("layers.25.attention.q_proj", "layers.1.attention.q_proj"),
        ("layers.3", "layers.3"),
        ("layers.26.ffn", "layers.26.ffn"),
        ("lm_head", "lm_head"),
        ("rotary.0", "rotary.0"),
        ("layers.*.ffn", "layers.*.ffn"),
    ],
)
def test_a_place_in_a_built_model_has_one_counted_path(built, counted):
    assert GEMMA.counted_path(built) == counted


def test_groups_and_stacks_have_paths_of_their_own():
    groups = load("deepseek-v3").model  # 3 dense layers, then 58 with experts
    assert [(layer.path, layer.yaml_path, layer.times) for layer in LayerIndex(groups)] == [
        ("layers.0", "groups.0.layer", 3),
        ("layers.3", "groups.1.layer", 58),
    ]
    pair = LayerIndex(OTHERS["t5"])
    assert [(layer.path, layer.yaml_path, layer.prefix) for layer in pair] == [
        (f"{half}.layers.0", f"{half}.groups.0.pattern.0", f"{half}.") for half in ("encoder", "decoder")
    ]
    assert pair.built_paths("decoder.layers.0.ffn")[-1] == "decoder.layers.2.ffn"


def test_the_first_of_adapted_layers_is_counted_apart():
    index = LayerIndex(load("gpt2", ["lora={rank: 2}"]).model)
    assert list(index.span("layers.0.ffn.up_proj")) == [0]
    assert list(index.span("layers.1.ffn.up_proj")) == list(range(1, 12))
    assert index.counted_path("layers.7.ffn") == "layers.1.ffn"


def test_any_number_of_layers_is_looked_up_at_once():
    index = LayerIndex(load("gpt2", ["n_layers=1000000000"]).model)
    assert index.counted_path("layers.999999999.ffn") == "layers.0.ffn"
    assert index.span("layers.0") == range(1_000_000_000)


def test_a_row_outside_of_all_layers_stands_for_itself():
    assert GEMMA.span("final_norm") == range(1)
    assert GEMMA.built_paths("final_norm") == ["final_norm"]
    assert folded_path("encoder.layers.7.ffn.up_proj", 4) == "encoder.layers.*.ffn"
