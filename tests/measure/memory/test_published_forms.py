"""The form that a model's files have, by engine: as published, as llama.cpp's files, as MLX's."""

import pytest

import archcli
from archcli.errors import ArchError
from table import every_row

SERVED = {"phase": "serve", "seq_len": 64}

# Tensors of ggml-org's files as llama-bench prints them, and the token table, which llama.cpp leaves in RAM:
# 34 bytes for 32 of its 201,088 x 2,880 numbers. FP4 of DeepSeek-V4: 129,280 x 4,096 and x 7,168.
FILES = {
    "gpt-oss-20b": (11.27, 201088 * 2880),
    "gpt-oss-120b": (59.02, 201088 * 2880),
    "deepseek-v4-flash": (144.42, 129280 * 4096),
}


@pytest.mark.long
@every_row("name", FILES)
def test_in_llama_cpp_experts_keep_their_fp4_and_the_rest_is_q8_0(name):
    size, table = FILES[name]
    report = archcli.count_memory(name, engine="llamacpp", **SERVED)
    assert report.inputs["dtype"] == "mxfp4-moe"
    weights = report.totals["parts"]["weights"] + table // 32 * 34
    assert round(weights / 2**30, 2) == size
    predicted = archcli.predict(name, "dgx-spark" if "gpt" in name else "m3-ultra", engine="llamacpp")
    assert predicted.inputs["dtype"] == "mxfp4-moe"


def test_other_engines_read_what_is_published():
    """Experts in 4.25 bits, all else in bf16: gpt-oss's checkpoint, 12.8 GiB by its model card.

    MLX's files have the rest in 8 bits in groups of 64: mlx-community/gpt-oss-20b-MXFP4-Q8.
    """
    experts, biases = 24 * 32 * 3 * 2880 * 2880, 24 * 32 * 3 * 2880
    rest = 20914757184 - experts - biases
    of_mlx = archcli.count_memory("gpt-oss-20b", engine="mlx", **SERVED)
    assert of_mlx.inputs["dtype"] == "mlx-mxfp4-q8"
    # norms and the biases of attention have 16 bits, too, and are few
    assert of_mlx.totals["parts"]["weights"] == pytest.approx(
        (experts * 4.25 + rest * 8.5 + biases * 16) / 8, rel=5e-5
    )
    for engine in ("vllm", "sglang"):
        report = archcli.count_memory("gpt-oss-20b", engine=engine, **SERVED)
        assert report.inputs["dtype"] == "mxfp4"
        assert round(report.totals["parts"]["weights"] / 2**30, 1) == 12.8
    cached = archcli.count_kv_cache("gpt-oss-20b", engine="llamacpp", memory="24GiB").totals["fits"]
    assert round(cached["weights_bytes"] / 2**30, 2) == 11.27


def test_a_config_json_of_the_family_is_converted_as_the_preset_is():
    config = archcli.load("gpt-oss-20b")
    form = {"bits": "dtype", "rules": [{"match": "experts", "bits": 4, "group_size": 32, "scale_bits": 8}]}
    stated = archcli.load("gpt-oss-20b", overrides=[f"published_in={form}".replace("'", "")])
    assert stated.published_in != config.published_in
    for model in (config, stated):
        assert archcli.count_memory(model, engine="llamacpp", **SERVED).inputs["dtype"] == "mxfp4-moe"


def test_mxfp4_of_mlx_is_of_every_matrix():
    """Qwen3.5 35B-A3B in MLX's mxfp4: its rows of 2,048 have 4.25 bits, in tables as in experts."""
    parts = archcli.count_memory("qwen3.5-35b-a3b", dtype="mxfp4", engine="mlx", **SERVED).totals["parts"]
    experts_alone = archcli.count_memory("qwen3.5-35b-a3b", dtype="mxfp4", engine="vllm", **SERVED).totals[
        "parts"
    ]
    params = archcli.count_params("qwen3.5-35b-a3b").totals["params"]
    assert parts["weights"] < experts_alone["weights"]
    assert 4.25 <= 8 * parts["weights"] / params < 4.3


REFUSED = [
    (
        "deepseek-v3",
        None,
        "llamacpp",
        "llama.cpp does not read weights in fp8-block",
        "--dtype q8_0, the nearest",
    ),
    (
        "llama-3.1-8b",
        "q4_k_m",
        "vllm",
        "vLLM does not read weights in q4_k_m",
        "--dtype awq-int4, the nearest",
    ),
    ("llama-3.1-8b", "q8_0", "mlx", "MLX does not read weights in q8_0", "--dtype mlx-8bit, the nearest"),
    (
        "llama-3.1-8b",
        "mlx-6bit",
        "llamacpp",
        "llama.cpp does not read weights in mlx-6bit",
        "--dtype q6_k, the",
    ),
    (
        "llama-3.1-8b",
        "exl2-4.0",
        "vllm",
        "vLLM does not read weights in exl2-4.0, ExLlamaV2 does",
        "--dtype awq",
    ),
    (
        "deepseek-v4-flash",
        None,
        "mlx",
        "MLX does not read weights in FP8 in blocks of 128 x 128",
        "--dtype mlx-8bit",
    ),
]


@pytest.mark.parametrize(("model", "dtype", "engine", "what", "hint"), REFUSED)
def test_a_format_that_an_engine_does_not_read_is_a_line_with_the_nearest(model, dtype, engine, what, hint):
    with pytest.raises(ArchError) as error:
        archcli.count_memory(model, dtype=dtype, engine=engine, **SERVED)
    [problem] = error.value.problems
    assert problem.what.startswith(what)
    assert problem.hint.startswith(hint)


def test_what_is_stated_is_counted_with_a_note_where_no_engine_runs_it():
    report = archcli.count_memory("llama-3.1-8b", dtype="fp8", device="m3-max", **SERVED)
    assert any("does not run on m3-max with weights in fp8" in note for note in report.notes)
    on_a_mac = archcli.count_memory("llama-3.1-8b", dtype="mlx-4bit", device="m3-max", **SERVED)
    assert on_a_mac.inputs["engine"] == "mlx"
    assert not any("does not run" in note for note in on_a_mac.notes)


def test_two_types_of_a_cache_are_llama_cpps():
    assert archcli.count_memory("llama-3.1-8b", kv_dtype="q8_0:q4_0", **SERVED).inputs["engine"] == "llamacpp"
    with pytest.raises(ArchError, match="vLLM keeps keys and values in one type, not in bf16:fp8"):
        archcli.count_memory("llama-3.1-8b", kv_dtype="bf16:fp8", engine="vllm", **SERVED)
