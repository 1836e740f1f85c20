"""Named formats: bits by the structs and papers that define them, whole models by the sizes of files."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules.stored.formats import FORMATS, GGML, UNSLOTH, cache_bytes, parse_format
from archcli.modules.stored.mixes import MIXES
from covering import COVERING
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
    "iq2_s": (2 + 64 + 8 + 8) * 8 / 256,
    "iq3_xxs": (2 + 3 * 256 // 8) * 8 / 256,
    "iq3_s": (2 + 13 * 256 // 32 + 256 // 64) * 8 / 256,
    "iq4_xs": (2 + 2 + 256 // 64 + 256 // 2) * 8 / 256,
    "iq1_s": (2 + 256 // 8 + 2 * 256 // 32) * 8 / 256,
    "iq1_m": (256 // 8 + 256 // 16 + 256 // 32) * 8 / 256,
    "iq2_xxs": (2 + 2 * 256 // 8) * 8 / 256,
    "iq2_xs": (2 + 2 * 256 // 8 + 256 // 32) * 8 / 256,
    "tq1_0": (2 + 4 + (256 - 4 * 256 // 64) // 5) * 8 / 256,
    "tq2_0": (2 + 256 // 4) * 8 / 256,
    "q1_0": (2 + 128 // 8) * 8 / 128,
    "q2_0": (2 + 64 // 4) * 8 / 64,
    "nf4": 4 + 32 / 64,  # QLoRA, section 3: 0.5 bits of scales a weight
    "nf4-double": 4 + 8 / 64 + 32 / (64 * 256),  # the same: 0.127
    "awq-int4": 4 + (16 + 4) / 128,
    "gptq-int4": 4 + (16 + 4) / 128,
    "mxfp4": 4 + 8 / 32,  # OCP MX v1.0, table 1: k = 32, E8M0
    "mxfp8": 8 + 8 / 32,
    "gptq-int8": 8 + (16 + 8) / 128,
    # mlx.core.quantize: affine groups of 64 with a scale and a bias of 16 bits; mx and nv without a bias
    "mlx-mxfp4-q8": 8 + (16 + 16) / 64,
    **{f"mlx-{bits}bit": bits + (16 + 16) / 64 for bits in (2, 3, 4, 5, 6, 8)},
    "mlx-mxfp4": 4 + 8 / 32,
    "mlx-mxfp8": 8 + 8 / 32,
    "mlx-nvfp4": 4 + 8 / 16,
    "nvfp4": 4 + 8 / 16 + 32 / 4096**2,
    "fp8-block": 8 + 32 / 128**2,
}


PACKINGS = GGML | {name: form.packing for name, form in FORMATS.items() if not form.mix}


@every_row("name", BITS)
def test_a_weight_takes_the_bits_of_its_block(name):
    bits = PACKINGS[name].bits_of((4096, 4096), 16)
    assert (bits.values + bits.scales) / 4096**2 == BITS[name]


def test_all_formats_have_bits_that_were_worked_out():
    assert {*PACKINGS} - {*BITS} - {*UNSLOTH} == {"fp16"}


def totals(model, dtype):
    return archcli.count_params(model, dtype=dtype).totals


FILES = {
    # gpt-oss's model card, arXiv:2508.10925 table 1: a checkpoint of 12.8 GiB
    ("gpt-oss-20b", "mxfp4"): (12.8, 2**30, 1),
    # llama-2-7b.Q8_0.gguf on the hub: 7.16 GB with its vocabulary
    ("llama-2-7b", "q8_0"): (7.16, 10**9, 2),
    # sizes that llama-bench prints, tensors alone: discussions 4167 (LLaMA 7B) and 15396 (gpt-oss) of
    # ggml-org/llama.cpp; those of q4_1, q5_0, q5_1 and of DeepSeek V3 (pull request 11049) from knowledge
    ("llama-2-7b", "q4_0"): (3.56, 2**30, 2),
    ("llama-2-7b", "q4_1"): (3.95, 2**30, 2),
    ("llama-2-7b", "q5_0"): (4.33, 2**30, 2),
    ("llama-2-7b", "q5_1"): (4.72, 2**30, 2),
    ("gpt-oss-20b", "mxfp4-moe"): (11.27, 2**30, 2),
    ("gpt-oss-120b", "mxfp4-moe"): (59.02, 2**30, 2),
    ("deepseek-v3", "q4_k_m"): (376.65, 2**30, 2),
    # unsloth/DeepSeek-V4-Flash-GGUF, UD-Q4_K_XL, which keeps the published experts: 144.4 GiB
    ("deepseek-v4-flash", "mxfp4-moe"): (144.4, 2**30, 1),
    # mlx-community/Meta-Llama-3.1-8B-Instruct-4bit: 4.52 GB, from knowledge
    ("llama-3.1-8b", "mlx-4bit"): (4.52, 10**9, 2),
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
    # of llama.cpp's mixtures the head is in q6_k
    head = tables // 2
    for name, block in {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24}.items():
        packed = (LLAMA + head) * block // 32 + head * 210 // 256
        assert totals("llama-2-7b", name)["bytes"] == packed + 4 * NORMS
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
    with pytest.raises(ArchError, match="states a quantization of its own, which nf4 would contradict"):
        archcli.count_memory("llama-3.2-3b-lora-3.7bit", dtype="nf4")


@pytest.mark.parametrize("name", ["NF4", " Q8_0 ", "MXFP4", "BF16", "float8_e4m3fn"])
def test_a_format_is_known_in_any_case(name):
    assert parse_format(name) == name.strip().lower()


def test_a_mixture_gives_layers_their_types():
    """Llama 3.1 8B as Q4_K_M: of 32 layers 16 have more bits in values and down projections.

    The first and the last 4, and of the 24 between each third: 8.
    """
    d, kv, f, vocabulary = 4096, 1024, 14336, 128256
    more = 16 * (d * kv + d * f)
    usual = 32 * (2 * d * d + 2 * d * kv + 3 * d * f) - more
    bytes_ = (usual + vocabulary * d) * 144 // 256 + (more + vocabulary * d) * 210 // 256 + 4 * 65 * d
    assert totals("llama-3.1-8b", "q4_k_m")["bytes"] == bytes_


def test_eight_experts_a_70b_and_tied_tables_have_types_of_their_own():
    # Mixtral: keys and values in q8_0, attention's output in q5_k
    [row] = [
        row
        for row in archcli.count_params("mixtral-8x7b", dtype="q4_k_m", depth=4).rows
        if row["path"] == "layers.*.attention.k_proj"
    ]
    assert row["bits_per_weight"] == 8.5
    # 8 query heads a key head in 80 layers: values in q5_k where the mixture has q4_k
    widths = {
        row["path"]: row["bits_per_weight"]
        for row in archcli.count_params("llama-3.1-70b", dtype="q4_k_m", depth=4).rows
    }
    assert widths["layers.*.attention.v_proj"] == (5.5 + 6.5625) / 2
    # one table for both, with the head's type
    table = archcli.count_params("llama-3.2-1b", dtype="q4_k_m", depth=2).rows[0]
    assert (table["path"], table["bits_per_weight"]) == ("embedding.tokens", 6.5625)


def test_rows_of_broken_blocks_have_the_type_that_stands_in():
    """Qwen2.5 0.5B: rows of 896 are no whole blocks of 256; down projections have 4,864 = 19 x 256."""
    widths = {
        row["path"]: row["bits_per_weight"]
        for row in archcli.count_params("qwen2.5-0.5b", dtype="q4_k_m", depth=4).rows
    }
    assert widths["layers.*.ffn.gate_proj"] == 5.5
    assert widths["layers.*.ffn.down_proj"] == (4.5 + 6.5625) / 2
    assert widths["embedding.tokens"] == 8.5


@pytest.mark.long
@every_row("name", [*MIXES, "fp8", "int8", "nf4-double"])
def test_a_name_stands_for_a_quantization_in_a_yaml(name):
    model = archcli.load("llama-2-7b", overrides=[f"quantization={name}"])
    whole = archcli.count_params(model).totals["bytes"]
    if name in FORMATS:
        assert whole == totals("llama-2-7b", name)["bytes"]
    else:
        scales = 4 * L * (2 * D + 2 * KV + 2 * F + D)  # one of fp32 for each output
        assert whole == LLAMA + scales + 2 * (2 * V * D + NORMS)


def test_a_format_and_its_fields_contradict_each_other():
    for text, said in {
        "{format: q4_k_m, bits: 3}": "states format and bits",
        "{rules: []}": "missing key bits",
        "q4_km": "did you mean q4_k_m",
    }.items():
        with pytest.raises(ArchError, match=said):
            archcli.load("llama-2-7b", overrides=[f"quantization={text}"])


@pytest.mark.long
def test_memory_and_predict_take_formats():
    """The weights are as stored, all else as in bf16."""
    plain = archcli.count_memory("llama-2-7b", "decode", engine="none").totals["parts"]
    for name in ("q4_k_m", "nf4-double", "awq-int4", "mlx-4bit", "nvfp4"):
        parts = archcli.count_memory("llama-2-7b", "decode", dtype=name, engine="none").totals["parts"]
        assert parts == plain | {"weights": totals("llama-2-7b", name)["bytes"]}
    report = archcli.predict("llama-2-7b", "rtx-4090", dtype="Q4_K_M")
    assert report.inputs["dtype"] == "q4_k_m"
    assert "q4_k_m, computed in bf16" in report.title
    assert (
        report.totals["time_s"]["floor"] < archcli.predict("llama-2-7b", "rtx-4090").totals["time_s"]["floor"]
    )


@pytest.mark.torch
def test_what_cannot_be_built_is_refused():
    with pytest.raises(ArchError, match="a module cannot be built in q8_0"):
        archcli.build("gpt2", dtype="q8_0")


@pytest.mark.long
def test_an_engines_cache_has_a_type_of_its_own():
    """Keys and values of Llama 3.1 8B: 34 bytes for 32 numbers in q8_0, one each in fp8."""
    tokens, heads = 2048, 32 * 2 * 8 * 128
    held = {
        name: archcli.count_memory("llama-3.1-8b", "serve", seq_len=tokens, kv_dtype=name).totals["parts"][
            "cache"
        ]
        for name in (None, "fp8", "q8_0", "q4_0")
    }
    numbers = tokens * heads
    assert held == {None: 2 * numbers, "fp8": numbers, "q8_0": numbers // 32 * 34, "q4_0": numbers // 32 * 18}
    slow, quick = (
        archcli.predict(
            "llama-3.1-8b", "h100-sxm", "serve", batch_size=64, engine="vllm", kv_dtype=name
        ).totals
        for name in (None, "fp8")
    )
    assert quick["per_token_s"]["floor"] < slow["per_token_s"]["floor"]


def test_an_engine_holds_no_scores_of_all_pairs():
    """gpt-oss has sinks, which torch does not fuse: scores of 64 heads are 2 bytes for each pair at least."""
    tokens = 8192
    scores = 64 * tokens**2 * 2
    served, eager = (
        archcli.count_memory("gpt-oss-20b", "prefill", seq_len=tokens, engine=engine).totals["parts"][
            "temporaries"
        ]
        for engine in ("vllm", "none")
    )
    assert served < scores < eager


def test_a_type_of_the_cache_is_an_engines():
    refused = "--kv-dtype is of an engine's cache, and the phase is decode without"
    with pytest.raises(ArchError, match=refused):
        archcli.count_memory("gpt2", "decode", kv_dtype="fp8", engine="none")
    with pytest.raises(ArchError, match=refused):
        archcli.predict("gpt2", "h100-sxm", kv_dtype="fp8", engine="none")
    with pytest.raises(ArchError, match="vLLM keeps no cache in nf4"):
        archcli.count_memory("gpt2", "serve", kv_dtype="nf4")


def test_what_does_not_fit_is_told_the_largest_format_that_does():
    """Llama 3.1 8B in 12 GiB: 8.5 GB in fp8 fit; in 8 GiB vLLM has 4 bits, and llama.cpp is not asked."""
    for memory, name in {"12GiB": "fp8", "8GiB": "awq-int4"}.items():
        change = archcli.count_memory("llama-3.1-8b", "decode", memory=memory).totals["change"]
        assert change["change"] == f"--dtype {name}"
        again = archcli.count_memory("llama-3.1-8b", "decode", memory=memory, dtype=name).totals
        assert again["fits"]
        assert again["peak_bytes"] == change["peak_bytes"]
    smaller = archcli.count_memory("llama-3.1-8b", "decode", memory="5GiB", dtype="q5_k_m").totals["change"]
    assert smaller["change"] == "--dtype q4_k_s"


def test_rows_of_no_whole_blocks_stay_as_they_are_and_are_named():
    """DeepSeek-V2-Lite's first layer is 10,944 wide, no multiple of 128; GPTQ's last group may be short."""
    report = archcli.count_params("deepseek-v2-lite", dtype="awq-int4", depth=5)
    [down] = [row for row in report.rows if row["path"] == "layers.*.ffn.down_proj"]
    assert down["bytes"] == 2 * 2048 * 10944
    note = "awq-int4: rows that are no whole blocks of 128 stay in bf16: layers.*.ffn.down_proj."
    assert note in report.notes
    for asked in (
        archcli.count_memory("deepseek-v2-lite", "decode", dtype="awq-int4"),
        archcli.predict("deepseek-v2-lite", "h100-sxm", dtype="awq-int4"),
    ):
        assert note in asked.notes
    rows = archcli.count_params("deepseek-v2-lite", dtype="gptq-int4", depth=5).rows
    [down] = [row for row in rows if row["path"] == "layers.*.ffn.down_proj"]
    assert down["bytes"] * 8 == 2048 * (4 * 10944 + (16 + 4) * 86)
    assert not any("whole blocks" in note for note in archcli.count_params("gpt2", dtype="awq-int4").notes)


def test_a_file_of_one_type_has_that_of_smaller_blocks_where_rows_are_broken():
    """Qwen2.5 0.5B is 896 wide, no multiple of 256: llama.cpp stores such rows in q8_0 in place of q6_k."""
    rows = {row["path"]: row for row in archcli.count_params("qwen2.5-0.5b", dtype="q6_k", depth=5).rows}
    assert rows["embedding.tokens"]["bytes"] == 151936 * 896 // 32 * 34
    assert rows["layers.*.ffn.down_proj"]["bytes"] == 24 * 896 * 4864 // 256 * 210
    # Mixtral's keys and values are in q8_0: the file of TheBloke/Mixtral-8x7B-v0.1-GGUF has 38.38 GB
    assert round(archcli.count_params("mixtral-8x7b", dtype="q6_k").totals["bytes"] / 1e9, 2) == 38.38


NAMED = (
    *("q2_k", "q3_k_m", "q3_k_l", "q4_0", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "q8_0", "iq3_xxs"),
    *("iq4_xs", "nf4", "nf4-double", "awq-int4", "gptq-int4", "mlx-4bit", "mxfp4", "nvfp4", "fp8"),
    *("fp8-block", "int8"),
)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("model", [name for name in COVERING if name != "llama-3.2-3b-lora-3.7bit"])
def test_every_preset_takes_every_format(model):
    loaded = archcli.load(model)
    plain = 2 * archcli.count_params(loaded).totals["params"]
    # norms and routers in fp32 may outweigh what a tiny matrix saves
    assert all(0 < totals(loaded, name)["bytes"] < 1.02 * plain for name in NAMED)
