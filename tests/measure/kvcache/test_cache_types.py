"""Types of a cache: bytes by arithmetic in kvcache, memory and predict."""

import pytest

import archcli
from archcli.errors import ArchError

# llama-3.1-8b: 32 layers, 8 kv heads of 128, keys and values
TOKENS, ELEMENTS = 4096, 4096 * 32 * 8 * 2 * 128
# type: (numbers of a block, its bytes); ggml-common.h; nvfp4: 16 of 4 bits and a scale of fp8
BLOCKS = {
    "fp32": (1, 4),
    "bf16": (1, 2),
    "fp16": (1, 2),
    "fp8": (1, 1),
    "int8": (1, 1),
    "q8_0": (32, 2 + 32),
    "q5_1": (32, 2 + 2 + 4 + 16),
    "q4_0": (32, 2 + 16),
    "nvfp4": (16, 8 + 1),
}


def expected(dtype):
    numbers, size = BLOCKS[dtype]
    return ELEMENTS // numbers * size


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("dtype", BLOCKS)
def test_a_cache_takes_its_blocks(dtype):
    for option in ("dtype", "kv_dtype"):
        report = archcli.count_kv_cache("llama-3.1-8b", TOKENS, **{option: dtype})
        assert report.totals["bytes"] == expected(dtype)
        assert report.inputs["dtype"] == report.inputs["kv_dtype"] == dtype
    served = archcli.count_memory("llama-3.1-8b", "serve", seq_len=TOKENS, kv_dtype=dtype)
    assert served.totals["parts"]["cache"] == expected(dtype)
    asked = {"phase": "serve", "seq_len": TOKENS - 128, "new": 128, "kv_dtype": dtype}
    predicted = archcli.predict("llama-3.1-8b", "h100-sxm", **asked)
    assert predicted.inputs["kv_dtype"] == dtype
    same = {"kv_dtype": "bf16", "engine": predicted.inputs["engine"]}
    plain = archcli.predict("llama-3.1-8b", "h100-sxm", **{**asked, **same})
    assert plain.totals["needed_bytes"] - predicted.totals["needed_bytes"] == expected("bf16") - expected(
        dtype
    )


@pytest.mark.long
def test_latents_with_scales_take_656_bytes_and_index_keys_132():
    """512 of fp8, 4 scales of fp32, 64 rotary in bf16; 128 of fp8 and a scale: 61 layers of V3.2."""
    latent, index = 512 + 4 * 4 + 64 * 2, 128 + 4
    assert (latent, index) == (656, 132)
    report = archcli.count_kv_cache("deepseek-v3.2", TOKENS, kv_dtype="fp8_ds_mla", batch_size=3)
    assert report.totals["bytes"] == 3 * TOKENS * 61 * (latent + index)
    assert report.totals["bytes_per_token"] == 61 * (latent + index)
    served = archcli.count_memory("deepseek-v3", "serve", seq_len=TOKENS, kv_dtype="FP8-DS-MLA")
    assert served.totals["parts"]["cache"] == TOKENS * 61 * latent
    asked = {"phase": "serve", "seq_len": TOKENS - 128, "new": 128, "tp": 8}
    low, plain = (
        archcli.predict("deepseek-v3", "8xh200-sxm", **asked, **kv)
        for kv in ({"kv_dtype": "fp8_ds_mla"}, {"kv_dtype": "bf16"})
    )
    differing = plain.totals["needed_bytes"] - low.totals["needed_bytes"]
    assert differing == TOKENS * 61 * (2 * (512 + 64) - latent)


def test_a_key_of_deepseek_v4_takes_584_bytes():
    """448 of fp8, 64 rotary in bf16, 7 scales of e8m0 and a byte between: spark-arena/sparkrun #247."""
    key, index, tokens, window = 448 + 2 * 64 + 7 + 1, 128 + 4, 1024, 128
    assert key == 584
    report = archcli.count_kv_cache("deepseek-v4-flash", tokens, kv_dtype="fp8_ds_mla")
    # 43 layers of a window; 21 have a key for 4 tokens with an index key, 20 one for 128
    keys = 43 * window + 21 * tokens // 4 + 20 * tokens // 128
    still_open = report.totals["by_content"]["open block"]
    assert report.totals["bytes"] == keys * key + 21 * tokens // 4 * index + 2 * still_open


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: archcli.count_kv_cache(model, kv_dtype="fp8_ds_mla"),
        lambda model: archcli.count_memory(model, "serve", kv_dtype="fp8_ds_mla"),
        lambda model: archcli.predict(model, "h100-sxm", "serve", kv_dtype="fp8_ds_mla"),
    ],
)
def test_the_cache_of_latents_is_of_their_widths_alone(ask):
    with pytest.raises(ArchError, match=r"of latents of 576 and index keys of 128, and layers\.0 caches"):
        ask("llama-3.1-8b")
    with pytest.raises(ArchError, match=r"latent of 288 a token"):
        ask("minicpm3-4b")


def test_two_names_of_one_type_must_agree():
    assert archcli.count_kv_cache("gpt2", dtype="q8_0", kv_dtype="q8_0").inputs["kv_dtype"] == "q8_0"
    with pytest.raises(ArchError, match="--dtype q8_0 and --kv-dtype fp8 name one and the same"):
        archcli.count_kv_cache("gpt2", dtype="q8_0", kv_dtype="fp8")


def test_states_beside_a_cache_in_nvfp4_stay_in_bf16():
    bf16 = archcli.count_kv_cache("jamba-1.5-mini", TOKENS).totals
    low = archcli.count_kv_cache("jamba-1.5-mini", TOKENS, kv_dtype="nvfp4").totals
    assert low["state_bytes"] == bf16["state_bytes"]
    assert low["kv_bytes"] * 32 == bf16["kv_bytes"] * 9


@pytest.mark.long
def test_weights_beside_a_cache_are_as_published():
    """The model card of gpt-oss: 12.8 GiB; the type of the cache is not that of published weights."""
    for dtype in ("bf16", "q8_0", "fp8"):
        fits = archcli.count_kv_cache("gpt-oss-20b", TOKENS, kv_dtype=dtype, memory="16GB").totals["fits"]
        assert round(fits["weights_bytes"] / 2**30, 0) == 13
    fits = archcli.count_kv_cache("gpt-oss-20b", TOKENS, memory="16GB").totals["fits"]
    assert fits["weights_bytes"] == archcli.count_params("gpt-oss-20b").totals["published_bytes"]
