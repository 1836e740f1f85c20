"""Every preset's counts against its source's published figures and its transformers class."""

import json
from functools import cache
from pathlib import Path

import pytest

from archcli.load.source import load
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.modules.models.stack import stacks
from archcli.modules.spec.request import Request
from archcli.units import agrees
from table import every_row, sampled_rows

TESTS = Path(__file__).parents[1]
FILES = {path.stem: path for path in sorted((TESTS.parent / "presets").glob("*.yaml"))}
ORACLE = json.loads((TESTS / "oracle" / "figures.json").read_text())["models"]

every_preset = every_row("name", FILES)


@cache
def preset(name):
    return load(name).model


def flops(name, **question):
    return count_flops(preset(name), Request(**question), mask="dense").totals["matmul_flops"]


def cached(name, context):
    return count_kv_cache(preset(name), context).totals


def figures(name):
    """Ours, laid out as the oracle's: those that it has."""
    params = count_params(preset(name)).totals
    asked = {
        "flops": lambda n: flops(name, seq_len=n),
        "decode_flops": lambda n: flops(name, phase="decode", past=n, forms={"mla": "naive"}),
        "kv_elements": lambda n: cached(name, n)["elements"],
        "cross_elements": lambda n: cached(name, n)["cross_elements"],
    }
    shapes = {
        key: {n: ask(int(n)) for n in ORACLE[name][key]} for key, ask in asked.items() if key in ORACLE[name]
    }
    return {key: params[key] for key in ("params", "active_params", "by_group")} | shapes


@sampled_rows("name", ORACLE, 4)
def test_counts_what_the_oracle_counts(name):
    assert figures(name) == ORACLE[name]


@sampled_rows("name", ORACLE, 4)
def test_the_head_and_the_tables_are_what_the_body_leaves(name):
    """Head and tables are those of transformers, and what is left of its total is the body."""
    totals, truth = count_params(preset(name)).totals, ORACLE[name]["by_group"]
    assert totals["embedding_params"] == truth.get("embedding", 0)
    assert totals["head_params"] == truth.get("lm_head", 0)
    tables = ("position_embedding", "token_type_embedding", "per_layer_embedding")
    parts = ("embedding_params", "head_params", "non_embedding_params")
    found = sum(totals[part] for part in parts) + sum(truth.get(table, 0) for table in tables)
    assert found == ORACLE[name]["params"]


@pytest.mark.parametrize(
    "name", [name for name, truth in ORACLE.items() if "kv_elements" not in truth and name != "gpt-1"]
)
def test_an_encoder_caches_nothing(name):
    assert (cached(name, 1024)["elements"], cached(name, 1024)["cross_elements"]) == (0, 0)


LN, BIASES = 2 * 768, 4 * 768 + 3072 + 768  # of a norm; of four projections and a feed-forward network
LONGCAT_EXPERTS = 512 * 3 * 6144 * 2048 + (512 + 256) * 6144
LONGCAT_HALF = (
    6144 * 1536 + 1536 + 1536 * 64 * (128 + 64)  # queries
    + 6144 * (512 + 64) + 512 + 512 * 64 * (128 + 128)  # keys and values
    + 64 * 128 * 6144 + 3 * 6144 * 12288 + 2 * 6144  # output, dense network, norms
)  # fmt: skip
OPEN = {
    "longformer-base-4096": (50265 + 4096 + 2 + 1) * 768
    + LN
    + 12 * (4 * 768**2 + 2 * 768 * 3072 + BIASES + 2 * LN)
    + (768**2 + 768),  # the pooler
    "performer": 32768 * 512 + 6 * (4 * 512**2 + 2 * 512 * 2048 + (2048 + 512) + 2 * 2 * 512),
    # DeepSeek-V3's, and the indexers: queries, key, weights, a norm with gain and bias
    "deepseek-v3.2": 671026404352 + 61 * (1536 * 64 * 128 + 7168 * 128 + 7168 * 64 + 2 * 128),
    "longcat-flash": 2 * 131072 * 6144 + 28 * (LONGCAT_EXPERTS + 2 * LONGCAT_HALF) + 6144,
}
"""Presets that no class of transformers counts as stored: their parameters, worked out."""


@pytest.mark.parametrize("name", OPEN)
def test_counts_what_is_worked_out(name):
    assert count_params(preset(name)).totals["params"] == OPEN[name]


@pytest.mark.long
@every_preset
def test_counts_what_was_published(name):
    """Where nobody states such a figure, the oracle is the witness, a sum above, or a remark is."""
    published, totals = preset(name).published, count_params(preset(name)).totals
    counted = {**totals, "params": totals["params"] - totals["lora_params"]}
    assert {
        key: (stated, counted[key]) for key, stated in published.items() if not agrees(stated, counted[key])
    } == {}
    remarked = any(
        line.startswith("source:") and " # " in line for line in FILES[name].read_text().splitlines()
    )
    assert published or remarked or name in (ORACLE | OPEN)


@pytest.mark.long
@every_preset
def test_its_sibling_stands_for_its_series(name):
    if sibling := preset(name).sibling_of:
        assert (preset(sibling).series, preset(sibling).sibling_of) == (preset(name).series, "")


@pytest.mark.long
@every_preset
def test_says_its_name_source_date_and_series(name):
    model = preset(name)
    assert model.name == name
    assert model.source.startswith(("arXiv:", "https://"))
    assert model.released is not None
    assert model.series == model.series.lower() != ""


@pytest.mark.long
@every_preset
def test_is_short_and_tells_editors_its_schema(name):
    lines = FILES[name].read_text().splitlines()
    assert lines[0] == "# yaml-language-server: $schema=./schema.json"
    models = [preset(name), *(tower.model for tower in preset(name).towers)]
    kinds_of_layer = {
        id(block)
        for model in models
        for _, stack in stacks(model)
        for group in stack.groups
        for block in group.blocks
    }
    keys = sum(":" in line for line in lines)  # a list of numbers may go on
    assert keys <= 18 * len(models) + 10 * len(kinds_of_layer)


def test_a_model_of_apples_kind_has_its_bits_per_weight_and_rank():
    """arXiv:2407.21075 section 5.

    3.7 bits per weight, adapters of rank 16 that take tens of megabytes in 16 bits.
    """
    totals = count_params(preset("llama-3.2-3b-lora-3.7bit")).totals
    assert round(totals["bits_per_weight"], 1) == round(totals["bits_per_weight_without_scales"], 1) == 3.7
    widths = (
        2 * (3072 + 3072) + 2 * (3072 + 1024) + 3 * (3072 + 8192)
    )  # in + out of q and o, k and v, the three of the FFN
    assert totals["lora_params"] == 28 * 16 * widths
    two_bits, table, gains = 17 * 3 * 3072 * 8192, 128256 * 3072, (2 * 28 + 1) * 3072
    four_bits = totals["params"] - totals["lora_params"] - two_bits - table - gains
    assert totals["params_by_width"] == {"8": table, "4": four_bits, "2": two_bits, "bf16": gains}


def test_a_context_is_that_of_the_card():
    """Seed-OSS: 512K natively, and max_position_embeddings 524288 in transformers' SeedOssConfig()."""
    assert preset("seed-oss-36b").max_seq_len == 512 * 1024


def test_llama_405b_in_the_open():
    layers, d_model, heads, kv_heads, width, d_ff, vocab = 126, 16384, 128, 8, 128, 53248, 128256
    attention = 2 * d_model * heads * width + 2 * d_model * kv_heads * width  # q and o, k and v
    matrices = (
        layers * (attention + 3 * d_model * d_ff) + vocab * d_model
    )  # the head is one more; the input table multiplies nothing
    gains = (2 * layers + 1) * d_model
    totals = count_params(preset("llama-3.1-405b")).totals
    assert totals["params"] == matrices + vocab * d_model + gains == 405_853_388_800
    scores_and_mix = layers * heads * (2 * width + 2 * width)  # per pair of a query and a key
    assert flops("llama-3.1-405b", seq_len=2048) == 2 * 2048 * matrices + 2048**2 * scores_and_mix
    assert flops("llama-3.1-405b", phase="decode", past=1024) == 2 * matrices + (1024 + 1) * scores_and_mix
    assert count_kv_cache(preset("llama-3.1-405b"), 1024).totals["elements"] == 1024 * layers * kv_heads * (
        width + width
    )
