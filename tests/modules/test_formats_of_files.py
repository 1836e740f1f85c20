"""Sizes of files by format: llama.cpp's own table, cards of the hub, MLX, ExLlama and Unsloth's mixtures."""

import runpy
from pathlib import Path

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules.stored.mixes import TABLE
from table import every_row

UNSLOTHS = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/unsloth_sizes.py"))


def totals(model, dtype):
    return archcli.count_params(model, dtype=dtype).totals


# Bits a weight of Llama 3.1 8B in the table of llama.cpp's tools/quantize/README.md, which has them to four
# digits. Its IQ4_XS and IQ4_NL were made without an importance matrix: `more` is in q5_k instead of 4 bits.
README = {
    "iq1_s": 2.0042,
    "iq1_m": 2.1460,
    "iq2_xxs": 2.3824,
    "iq2_xs": 2.5882,
    "iq2_s": 2.7403,
    "iq2_m": 2.9294,
    "iq3_xxs": 3.2548,
    "iq3_xs": 3.4977,
    "iq3_s": 3.6606,
    "iq3_m": 3.7628,
    "q2_k_s": 2.9697,
    "q2_k": 3.1593,
    "q3_k_s": 3.6429,
    "q3_k_l": 4.2979,
    "q4_k_s": 4.6672,
    "q4_k_m": 4.8944,
    "q5_k_s": 5.5704,
    "q5_k_m": 5.7036,
    "q6_k": 6.5633,
    "q8_0": 8.5008,
    "iq4_xs": 4.4597,
    "iq4_nl": 4.6818,
}


@every_row("name", README)
def test_a_mixture_takes_the_bits_of_llama_cpps_own_table(name):
    whole = totals("llama-3.1-8b", name)
    # the down projections of the first eighth of 32 layers
    more = {"iq4_xs": 5.5 - 4.25, "iq4_nl": 5.5 - 4.5}.get(name, 0) * 4 * 4096 * 14336
    assert round((8 * whole["bytes"] + more) / whole["params"], 4) == README[name]


def test_mixtures_of_two_bits_count_tensors_where_others_count_layers():
    """DeepSeek-V3: the first 61 // 8 = 7 down tensors are of 3 dense layers and of 2 that have two each."""
    [row] = [
        row
        for row in archcli.count_params("deepseek-v3", dtype="iq2_m", depth=5).rows
        if row["path"] == "layers.*.ffn.experts.down_proj"
    ]
    assert row["bits_per_weight"] == (2 * 3.4375 + 56 * 2.5625) / 58


def test_mlx_packs_tables_too_and_routers_in_8_bits():
    """Qwen3 30B-A3B, mlx-lm's models/qwen3_moe.py: every matrix in groups of 64; norms stay in 16 bits."""
    d, v, layers, heads, kv, experts, f = 2048, 151936, 48, 32 * 128, 4 * 128, 128, 768
    packed = 2 * v * d + layers * (2 * d * heads + 2 * d * kv + experts * 3 * d * f)
    routers, norms = layers * experts * d, layers * (2 * d + 2 * 128) + d
    for name, bits in {"mlx-3bit": 3.5, "mlx-6bit": 6.5, "mlx-mxfp4": 4.25, "mlx-nvfp4": 4.5}.items():
        assert totals("qwen3-30b-a3b", name)["bytes"] == (packed * bits + routers * 8.5) / 8 + 2 * norms


def test_exllama_packs_layers_by_bits_and_the_head_by_its_own():
    """Llama 3.1 8B: the token table in fp16, the head in 6 bits, which take 6.3 in exl2."""
    d, kv, f, v, norms = 4096, 1024, 14336, 128256, 65 * 4096
    layers = 32 * (2 * d * d + 2 * d * kv + 3 * d * f)
    for name, bits, head in (("exl2-4.25", 4.25, 6 + 38 / 128), ("exl3-3.5", 3.5, 6)):
        assert totals("llama-3.1-8b", name)["bytes"] == (layers * bits + v * d * (16 + head)) / 8 + 2 * norms
    model = archcli.load("llama-3.1-8b", overrides=["quantization=exl2-4.25"])
    assert archcli.count_params(model).totals["bytes"] == totals("llama-3.1-8b", "exl2-4.25")["bytes"]


def test_mixtures_of_unsloths_have_the_median_bits_of_published_files():
    rows = UNSLOTHS["averages"]()
    assert {name: [*row] for name, row in rows.items()} == TABLE["unsloth"]
    # an estimate for a file that is in the table: UD-Q4_K_XL of 2026 within the range of its eight files
    low, high = rows["ud-q4_k_xl"][1:3]
    whole = totals("qwen3.8-27b", "ud-q4_k_xl")
    assert low <= 8 * whole["bytes"] / whole["params"] <= high
    [note] = [it for it in archcli.params("gpt2", dtype="UD-Q4_K_XL").notes if "Unsloth" in it]
    assert "4.58 to 5.51 bits a weight in 8 files: an estimate, 5.13 for every matrix" in note


def test_keys_and_values_may_have_two_types():
    """8 kv heads of 128 in 32 layers: keys in 34 bytes for 32 numbers, values in 18."""
    half = 1000 * 8 * 128 * 32
    for text in ("q8_0:q4_0", "q8_0,q4_0"):
        report = archcli.count_kv_cache("llama-3.1-8b", context=1000, kv_dtype=text)
        assert report.totals["bytes"] == half // 32 * 34 + half // 32 * 18
    # latents have no values beside them
    latent = [
        archcli.count_kv_cache("deepseek-v3", 64, kv_dtype=it).totals["bytes"] for it in ("q8_0:q4_0", "q8_0")
    ]
    assert latent[0] == latent[1]
    with pytest.raises(ArchError, match="differ in width"):
        archcli.count_kv_cache("mimo-v2-flash", 64, kv_dtype="q8_0:q4_0")


# Sizes of files on the hub, which hold a vocabulary of 0.7 to 11 MB beside the weights: model cards of
# bartowski/Meta-Llama-3.1-8B-Instruct-GGUF, bartowski/Meta-Llama-3.1-70B-Instruct-GGUF and
# TheBloke/Llama-2-7B-GGUF, in GB of 10^9 bytes.
GGUF = {
    ("llama-3.1-8b", "q2_k"): 3.18,
    ("llama-3.1-8b", "iq3_xxs"): 3.27,
    ("llama-3.1-8b", "q3_k_m"): 4.02,
    ("llama-3.1-8b", "q3_k_l"): 4.32,
    ("llama-3.1-8b", "iq4_xs"): 4.45,
    ("llama-3.1-8b", "q4_k_s"): 4.69,
    ("llama-3.1-8b", "q4_k_m"): 4.92,
    ("llama-3.1-8b", "q5_k_s"): 5.60,
    ("llama-3.1-8b", "q5_k_m"): 5.73,
    ("llama-3.1-8b", "q6_k"): 6.60,
    ("llama-3.1-70b", "q3_k_s"): 30.91,
    ("llama-3.1-70b", "q3_k_m"): 34.27,
    ("llama-3.1-70b", "q3_k_l"): 37.14,
    ("llama-3.1-70b", "iq4_xs"): 37.90,
    ("llama-3.1-70b", "q4_k_s"): 40.35,
    ("llama-3.1-70b", "q4_k_m"): 42.52,
    ("llama-3.1-70b", "q5_k_s"): 48.66,
    ("llama-3.1-70b", "q5_k_m"): 49.95,
    ("llama-3.1-70b", "q6_k"): 57.89,
    ("llama-3.1-70b", "q8_0"): 74.98,
    ("llama-3.1-70b", "iq3_m"): 31.94,
    # with tables and head in q8_0
    ("llama-3.1-70b", "q3_k_xl"): 38.06,
    ("llama-3.1-70b", "q4_k_l"): 43.30,
    ("llama-3.1-70b", "q5_k_l"): 50.60,
    ("llama-2-7b", "q4_0"): 3.83,
    ("llama-2-7b", "q4_k_m"): 4.08,
    ("llama-2-7b", "q5_k_m"): 4.78,
}


def test_mixtures_take_what_files_take():
    """Within the vocabulary and the rounding of a card's figure."""
    off = {
        asked: (size, counted)
        for asked, size in GGUF.items()
        if not -0.006 <= size - (counted := totals(*asked)["bytes"] / 1e9) <= 0.012 + 0.006
    }
    assert not off
