"""Every preset counts what its source published and, figure by figure, what the transformers class of the same model counts."""

import json
from functools import cache
from pathlib import Path

import pytest

from archcli.load.source import load
from archcli.measure.flops import Question, count_flops
from archcli.measure.kvcache import count_kv_cache
from archcli.measure.params import count_params

TESTS = Path(__file__).parents[1]
FILES = {path.stem: path for path in sorted((TESTS.parent / "presets").glob("*.yaml"))}
ORACLE = json.loads((TESTS / "oracle" / "figures.json").read_text())["models"]

every_preset = pytest.mark.parametrize("name", FILES)


@cache
def preset(name):
    return load(name).model


def flops(name, **question):
    return count_flops(preset(name), Question(mask="dense", **question)).totals["matmul_flops"]


def figures(name):
    """Ours, laid out as the oracle's."""
    params, truth = count_params(preset(name)).totals, ORACLE[name]
    return {
        **{key: params[key] for key in ("params", "active_params", "by_group")},
        "flops": {n: flops(name, seq_len=int(n)) for n in truth["flops"]},
        "decode_flops": {n: flops(name, phase="decode", past=int(n)) for n in truth["decode_flops"]},
        "kv_elements": {n: count_kv_cache(preset(name), int(n)).totals["elements"] for n in truth["kv_elements"]},
    }


@pytest.mark.parametrize("name", ORACLE)
def test_counts_what_the_oracle_counts(name):
    assert figures(name) == ORACLE[name]


@every_preset
def test_counts_what_was_published(name):
    totals = count_params(preset(name)).totals
    assert totals["params"] - totals["lora_params"] == preset(name).published["params"]


@every_preset
def test_says_its_name_and_source(name):
    assert preset(name).name == name
    assert preset(name).source.startswith(("arXiv:", "https://"))


@every_preset
def test_is_short_and_tells_editors_its_schema(name):
    lines = FILES[name].read_text().splitlines()
    assert lines[0] == "# yaml-language-server: $schema=./schema.json"
    kinds_of_layer = sum(len(group.blocks) for group in preset(name).groups)
    assert len(lines) <= 15 + 10 * kinds_of_layer


def test_a_model_of_apples_kind_has_its_bits_per_weight_and_rank():
    """arXiv:2407.21075 section 5: 3.7 bits per weight, adapters of rank 16 that take tens of megabytes in 16 bits."""
    totals = count_params(preset("llama-3.2-3b-lora-3.7bit")).totals
    assert round(totals["bits_per_weight"], 1) == round(totals["bits_per_weight_without_scales"], 1) == 3.7
    widths = 2 * (3072 + 3072) + 2 * (3072 + 1024) + 3 * (3072 + 8192)  # in + out of q and o, k and v, the three of the FFN
    assert totals["lora_params"] == 28 * 16 * widths
    two_bits, table, gains = 17 * 3 * 3072 * 8192, 128256 * 3072, (2 * 28 + 1) * 3072
    four_bits = totals["params"] - totals["lora_params"] - two_bits - table - gains
    assert totals["params_by_width"] == {"8": table, "4": four_bits, "2": two_bits, "bf16": gains}


def test_llama_405b_in_the_open():
    layers, d_model, heads, kv_heads, width, d_ff, vocab = 126, 16384, 128, 8, 128, 53248, 128256
    attention = 2 * d_model * heads * width + 2 * d_model * kv_heads * width  # q and o, k and v
    matrices = layers * (attention + 3 * d_model * d_ff) + vocab * d_model  # the head is one more; the input table multiplies nothing
    gains = (2 * layers + 1) * d_model
    totals = count_params(preset("llama-3.1-405b")).totals
    assert totals["params"] == matrices + vocab * d_model + gains == 405_853_388_800
    scores_and_mix = layers * heads * (2 * width + 2 * width)  # per pair of a query and a key
    assert flops("llama-3.1-405b", seq_len=2048) == 2 * 2048 * matrices + 2048**2 * scores_and_mix
    assert flops("llama-3.1-405b", phase="decode", past=1024) == 2 * matrices + (1024 + 1) * scores_and_mix
    assert count_kv_cache(preset("llama-3.1-405b"), 1024).totals["elements"] == 1024 * layers * kv_heads * (width + width)
