"""`archcli export --to` a training program: counts of the programs' own classes, and refusals."""

import csv
from pathlib import Path

import pytest

import archcli
from archcli.api.asking.subject import subject
from archcli.errors import ArchError
from archcli.wings.shapes.api.export import ExportOptions, export_of

TABLE = Path(__file__).parents[2] / "benchmarks" / "trainers.csv"
ROWS = list(csv.reader(TABLE.read_text().splitlines()))
"""Trainer, preset, and parameters of the trainer's own model, built of the exported file."""
TRAINERS = ("litgpt", "megatron", "nanogpt", "torchtitan")
FEWEST = {"litgpt": 30, "megatron": 30, "nanogpt": 4, "torchtitan": 30}
"""So many presets at least are built by each trainer, of all models of GPT-2's kind by nanoGPT."""


def exported(name, trainer, *changes):
    return export_of(subject(name, list(changes)), ExportOptions(name, to=trainer))


def lines(name, trainer, *changes):
    return exported(name, trainer, *changes).text.splitlines()


@pytest.mark.sample(12)
@pytest.mark.parametrize(("trainer", "name", "count"), ROWS)
def test_the_class_of_the_trainer_has_the_parameters_of_the_preset(trainer, name, count):
    model = archcli.load(name).replace(towers=(), beside=(), lora=None)
    assert exported(name, trainer).text
    assert archcli.count_params(model).totals["params"] == int(count)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_each_trainer_built_many_presets(trainer):
    assert sum(of == trainer for of, _, _ in ROWS) >= FEWEST[trainer]


def test_litgpt_has_the_config_of_llama():
    # as LitGPT's own list of configs states Llama-3.1-8B
    stated = {
        "block_size: 131072",
        "vocab_size: 128256",
        "padded_vocab_size: 128256",
        "n_layer: 32",
        "n_head: 32",
        "n_query_groups: 8",
        "rotary_percentage: 1.0",
        "parallel_residual: false",
        "bias: false",
        'norm_class_name: "RMSNorm"',
        'mlp_class_name: "LLaMAMLP"',
        "intermediate_size: 14336",
        "rope_base: 500000",
    }
    assert stated <= set(lines("llama-3.1-8b", "litgpt"))


def test_litgpt_knows_norms_of_gemma_and_olmo_by_the_name():
    assert 'name: "Gemma-3-12b"' in lines("gemma-3-12b", "litgpt")
    assert 'name: "OLMo-7b"' in lines("olmo-7b", "litgpt")
    assert 'name: "olmo-2-7b"' in lines("olmo-2-7b", "litgpt")


def test_yaml_of_litgpt_is_read_as_numbers():
    import yaml

    config = yaml.safe_load(exported("llama-3.1-8b", "litgpt").text)
    assert config["norm_eps"] == 1e-5
    assert config["rope_adjustments"]["original_max_seq_len"] == 8192


def test_layers_of_two_kinds_are_lists():
    # of six layers five see 1024 tokens, and rotate by another base
    config = lines("gemma-3-12b", "litgpt")
    assert f"sliding_window_indices: {[1, 1, 1, 1, 1, 0] * 8}" in config
    # three dense layers before the mixtures; every fourth layer without RoPE
    assert "--moe-layer-freq ([0]*3+[1]*58)" in lines("deepseek-v3", "megatron")
    assert any(line.startswith("--no-rope-freq ([0]*3+[1]*1+") for line in lines("smollm3-3b", "megatron"))


def test_a_vocabulary_is_not_padded_by_megatron():
    # 50257 is odd; 128256 = 2^8 * 501
    assert "--make-vocab-size-divisible-by 1" in lines("gpt2", "megatron")
    assert "--make-vocab-size-divisible-by 128" in lines("llama-3.1-8b", "megatron")


def test_nanogpt_has_gpt2_and_says_what_it_computes_otherwise(cli):
    assert {"n_layer = 12", "n_head = 12", "n_embd = 768", "bias = True"} <= set(lines("gpt2", "nanogpt"))
    done = cli("export", "gpt2", "--to", "nanogpt")
    assert "note: nanoGPT has the exact gelu where the model has gelu_tanh" in done.err


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("attention.clip=8", "attention.clip 8"),
        ("residual_multiplier=0.5", "residual_multiplier 0.5"),
        ("attention.sinks=true", "attention.sinks true"),
    ],
)
def test_a_field_without_a_key_is_named_in_a_line_and_nothing_is_written(
    trainer, change, field, tmp_path, cli
):
    name = "gpt2" if trainer == "nanogpt" else "llama-3.1-8b"
    done = cli("export", name, "--to", trainer, "--set", change, "-o", tmp_path / "new")
    assert (done.code, done.out) == (2, "")
    assert f"has no key for layer.{field}" in done.err
    assert done.err.count("error:") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "trainer", "field"),
    [
        ("llama-3.1-8b", "nanogpt", "norm rmsnorm"),
        ("gpt2", "litgpt", "embedding.position learned"),
        ("deepseek-v3", "litgpt", "mtp MultiTokenPrediction"),
        ("gemma-3-12b", "megatron", "embedding.scale sqrt_d_model"),
        ("qwen2.5-7b", "torchtitan", "layer.attention.bias"),
        ("flan-t5-xxl", "megatron", "kind encoder_decoder"),
    ],
)
def test_a_preset_that_a_trainer_has_not_is_refused_by_its_field(name, trainer, field):
    with pytest.raises(ArchError, match=f"has no key for {field}"):
        exported(name, trainer)
