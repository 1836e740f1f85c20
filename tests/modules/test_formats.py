"""Named formats: bits by the structs and papers that define them, whole models by the sizes of files."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules.stored.formats import FORMATS, MIXED, cache_bytes, parse_format
from table import every_row

# What a weight of a large matrix takes. ggml-common.h: the bytes of a block times 8 over its weights.
BITS = {
    "q4_0": (2 + 16) * 8 / 32,
    "q4_1": (2 + 2 + 16) * 8 / 32,
    "q5_0": (2 + 4 + 16) * 8 / 32,
    "q5_1": (2 + 2 + 4 + 16) * 8 / 32,
    "q8_0": (2 + 32) * 8 / 32,
    "iq4_nl": (2 + 16) * 8 / 32,
    "q2_k": (2 * 2 + 16 + 64) * 8 / 256,
    "q3_k": (2 + 64 + 32 + 12) * 8 / 256,
    "q4_k": (2 * 2 + 12 + 128) * 8 / 256,
    "q5_k": (2 * 2 + 12 + 32 + 128) * 8 / 256,
    "q6_k": (2 + 128 + 64 + 16) * 8 / 256,
    "nf4": 4 + 32 / 64,  # QLoRA, section 3: 0.5 bits of scales a weight
    "nf4-double": 4 + 8 / 64 + 32 / (64 * 256),  # the same: 0.127
    "awq-int4": 4 + (16 + 4) / 128,
    "gptq-int4": 4 + (16 + 4) / 128,
    "mxfp4": 4 + 8 / 32,  # OCP MX v1.0, table 1: k = 32, E8M0
    "mxfp8": 8 + 8 / 32,
    "nvfp4": 4 + 8 / 16 + 32 / 4096**2,
    "fp8-block": 8 + 32 / 128**2,
}


@every_row("name", FORMATS)
def test_a_weight_takes_the_bits_of_its_block(name):
    bits = FORMATS[name].packing.bits_of((4096, 4096), 16)
    assert (bits.values + bits.scales) / 4096**2 == BITS[name]


def totals(model, dtype):
    return archcli.count_params(model, dtype=dtype).totals


FILES = {
    # gpt-oss's model card, arXiv:2508.10925 table 1: a checkpoint of 12.8 GiB
    ("gpt-oss-20b", "mxfp4"): (12.8, 2**30, 1),
    # llama-2-7b.Q8_0.gguf on the hub: 7.16 GB with its vocabulary
    ("llama-2-7b", "q8_0"): (7.16, 10**9, 2),
}


@pytest.mark.parametrize(("model", "dtype"), FILES)
def test_a_whole_model_takes_what_its_file_is_said_to(model, dtype):
    size, unit, digits = FILES[model, dtype]
    assert round(totals(model, dtype)["bytes"] / unit, digits) == size


D, V, L, KV, F = 4096, 32000, 32, 4096, 11008
LLAMA = L * (2 * D * D + 2 * D * KV + 3 * D * F)
NORMS = (2 * L + 1) * D


def test_what_stays_as_it_is_has_the_dtype_of_its_format():
    """Llama 2 7B: tables are packed by llama.cpp and not by the others, norms by none."""
    tables = 2 * V * D
    assert totals("llama-2-7b", "q4_0")["bytes"] == (LLAMA + tables) * 18 // 32 + 4 * NORMS
    for name in ("nf4", "awq-int4", "nvfp4"):
        whole = totals("llama-2-7b", name)
        assert whole["params_by_width"] == {"4": LLAMA, "bf16": tables + NORMS}
    assert totals("llama-2-7b", "nf4")["bytes"] == LLAMA * 9 // 16 + 2 * (tables + NORMS)


def test_routers_are_never_packed_and_of_a_mixture_mxfp4_packs_experts_alone():
    packed = totals("gpt-oss-20b", "mxfp4")["params_by_width"]["4"]
    assert packed == 24 * 32 * 3 * 2880 * 2880
    routers = 24 * (32 * 2880)
    for row in archcli.count_params("gpt-oss-20b", dtype="q8_0", depth=5).rows:
        if row["path"] == "layers.*.ffn.router":
            assert row["bytes"] == 4 * (routers + 24 * 32)
            break
    else:
        pytest.fail("no router")


def test_the_cache_takes_its_blocks_with_their_scales():
    """8 kv heads of 128 in 32 layers: 34 bytes for 32 elements."""
    elements = 1000 * 2 * 8 * 128 * 32
    report = archcli.count_kv_cache("llama-3.1-8b", context=1000, dtype="q8_0")
    assert (report.totals["elements"], report.totals["bytes"]) == (elements, elements // 32 * 34)
    assert cache_bytes(33, "q8_0") == -(-(33 * 8 + 2 * 16) // 8)
    assert cache_bytes(33, "fp8") == 33


def test_what_holds_no_cache_is_refused():
    with pytest.raises(ArchError, match=r"no engine keeps a cache in nf4; those of llama\.cpp: q4_0, q4_1"):
        archcli.count_kv_cache("gpt2", dtype="nf4")


def test_compare_takes_weights_and_cache_in_a_format():
    report = archcli.compare("gpt2", "llama-2-7b", dtype="q8_0")
    [weights] = [row for row in report.rows if row.get("key") == "bytes"]
    assert list(weights.values()).count(totals("llama-2-7b", "q8_0")["bytes"]) == 1


def test_rows_of_broken_blocks_are_refused():
    with pytest.raises(ArchError, match=r"embedding\.tokens: rows of 896 weights are no whole blocks of 256"):
        totals("qwen2.5-0.5b", "q4_k")
    assert totals("qwen2.5-0.5b", "q4_0")["params_by_width"]["4"] > 0


def test_a_model_with_a_quantization_of_its_own_keeps_it():
    with pytest.raises(ArchError, match="states a quantization of its own, which q4_0 would contradict"):
        totals("llama-3.2-3b-lora-3.7bit", "q4_0")


@pytest.mark.parametrize("name", ["NF4", " Q8_0 ", "MXFP4", "BF16", "float8_e4m3fn"])
def test_a_format_is_known_in_any_case(name):
    assert parse_format(name) == name.strip().lower()


@every_row("name", MIXED)
def test_a_mixture_of_llama_cpp_is_refused_with_the_reason(name):
    with pytest.raises(ArchError, match=f"{name} is no format: .*; give {MIXED[name]}"):
        parse_format(name)


def test_an_unknown_format_is_answered_with_all_there_are():
    with pytest.raises(ArchError, match=r"unknown dtype 'q9'; one of fp64, .*, fp8-block"):
        parse_format("q9")


@pytest.mark.torch
def test_what_cannot_be_built_is_refused():
    with pytest.raises(ArchError, match="a module cannot be built in q8_0"):
        archcli.build("gpt2", dtype="q8_0")
