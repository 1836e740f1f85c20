"""Engines in memory: what their caches hold, what they leave in RAM, their chunks and their shares."""

from typing import get_args

import pytest

import archcli
from archcli.arith import ELEMENT_BITS
from archcli.measure.kvcache.engine import ANY_ENGINE, NO_ENGINE
from archcli.modules.spec.arguments import EngineName
from archcli.modules.stored.formats import FORMATS, FP8_OF_LATENTS
from archcli.wings.serving.api.engine import engine_of
from archcli.wings.serving.devices.engines import engines, load_engine
from archcli.wings.serving.memory.pipeline import stages_of
from archcli.wings.serving.memory.plan import Plan
from table import every_row

GIB = 2**30
KV_HEADS, HEAD, LAYERS, BF16 = 8, 128, 32, 2
TOKEN = 2 * KV_HEADS * HEAD * LAYERS * BF16
"""Bytes of a token of llama-3.1-8b."""


def cache(model, phase="serve", **options):
    return archcli.count_memory(model, phase, **options).totals["parts"]["cache"]


def test_every_engine_has_a_name_and_a_file():
    assert sorted(get_args(EngineName)) == engines()
    for name in engines():
        engine = engine_of(name)
        assert (engine.name, engine.title) == (name, load_engine(name)["title"])
    assert engine_of("none").serves is NO_ENGINE.serves is False
    assert engine_of("vllm").serves is ANY_ENGINE.serves is True


WITHOUT_SOURCE = {"name", "title", "version", "source", "serves", "sources", "live", "kinds", "loads"}
"""Keys of an engine's file that its `source` as a whole is of, and what was fitted, which names its table."""


def test_every_fact_of_an_engine_has_a_source_and_a_format_a_name():
    for name in {*engines()} - {"none"}:  # which is torch as it is installed
        facts = load_engine(name)
        stated = {key for key, value in facts.items() if value not in (None, [], {}, 0, False, 1.0)}
        assert stated - WITHOUT_SOURCE - {*facts.get("sources", {})} == set(), name
        assert {*facts["formats"], *facts["cache_dtypes"]} <= {
            *ELEMENT_BITS,
            *FORMATS,
            FP8_OF_LATENTS,
            "gguf",
        }, name


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("engine", "block"), [("vllm", 16), ("sglang", 1), ("trtllm", 32), ("llamacpp", 256)]
)
def test_a_cache_is_made_of_whole_blocks(engine, block):
    for tokens in (1, 15, 16, 17, 255, 256, 257):
        assert cache("llama-3.1-8b", seq_len=tokens, engine=engine) == -(-tokens // block) * block * TOKEN
    one_more = cache("llama-3.1-8b", "decode", seq_len=256, engine=engine)
    assert one_more == (256 + block) * TOKEN
    assert cache("llama-3.1-8b", seq_len=256, new=1, engine=engine) == one_more


def test_a_window_holds_what_the_engine_says_and_no_more_than_there_is():
    """Gemma 2 2B: 13 layers with a window of 4,096, 13 without; 4 key heads of 256."""
    layer = 2 * 4 * 256 * BF16
    assert cache("gemma-2-2b", seq_len=8192, engine="vllm") == 13 * layer * (8192 + 4096 + 16)
    assert cache("gemma-2-2b", seq_len=8192, engine="llamacpp") == 13 * layer * (8192 + 4096 + 512)
    assert cache("gemma-2-2b", seq_len=4352, engine="llamacpp") == 13 * layer * 2 * 4352
    assert cache("gemma-2-2b", seq_len=2048, engine="llamacpp") == 26 * layer * 2048


def test_engines_keep_one_input_of_a_convolution_less():
    """Mamba 130M: 24 layers, 1,536 channels, 4 taps; a state of 16 a channel."""
    state = 24 * 1536 * 16
    held = archcli.count_kv_cache("mamba-130m", engine="vllm").totals
    assert held["bytes"] == (state + 24 * 1536 * 4) * BF16
    assert held["held"] == {"engine": "vllm", "bytes": (state + 24 * 1536 * 3) * BF16}
    assert cache("mamba-130m", seq_len=64) == held["held"]["bytes"]


@pytest.mark.long
def test_states_are_not_in_the_type_of_the_cache():
    """Qwen3.5 35B-A3B: 30 delta nets, 32 states of 128 x 128, 3 inputs of 8,192 channels kept."""
    recurrent, convolution = 30 * 32 * 128 * 128, 30 * 3 * 8192
    keys_values = {"bf16": 10 * 2 * 2 * 256 * BF16, "fp8": 10 * 2 * 2 * 256}
    widths = {"trtllm": (BF16, BF16), "sglang": (4, BF16), "llamacpp": (4, 4)}
    for engine, (of_state, of_convolution) in widths.items():
        states = recurrent * of_state + convolution * of_convolution
        for kv_dtype in ("bf16", "fp8")[: 1 if engine == "llamacpp" else 2]:
            held = 4096 * keys_values[kv_dtype] + states
            options = {"engine": engine, "kv_dtype": kv_dtype}
            cached = archcli.count_kv_cache("qwen3.5-35b-a3b", 4096, **options).totals
            assert cached["held"]["bytes"] == cache("qwen3.5-35b-a3b", seq_len=4096, **options) == held
    stated = archcli.count_kv_cache("qwen3.5-35b-a3b", 4096, engine="trtllm", state_dtype="fp32").totals
    of_all = 4096 * keys_values["bf16"] + recurrent * 4 + convolution * BF16
    assert stated["held"]["bytes"] == of_all


def test_the_states_of_llama_cpp_are_those_of_its_log():
    """Qwen3.5 27B, 3 sequences: RS buffer of 448.88 MiB, R (f32) 16.88, S (f32) 432.00, by its log."""
    options = {"engine": "llamacpp", "batch_size": 3}
    held = archcli.count_kv_cache("qwen3.5-27b", 256, **options).totals["held"]["bytes"]
    keys_values = 3 * 256 * 16 * 2 * 4 * 256 * BF16
    assert (held - keys_values) / 2**20 == pytest.approx(448.88, abs=0.01)


def test_a_window_of_llama_cpp_keeps_a_micro_batch_more():
    """Its dry run: 4 x 32,768 tokens, 2,048 at a time: 3,952 MiB of Gemma 3 4B, 3,288 of gpt-oss-20b."""
    options = {"seq_len": 32768, "batch_size": 4, "chunk": 2048, "kv_dtype": "fp16", "engine": "llamacpp"}
    for name, size in (("gemma-3-4b", 3952), ("gpt-oss-20b", 3288)):
        assert cache(name, **options) == size * 2**20


def test_llama_cpp_leaves_embeddings_of_layers_in_ram():
    def weights(**options):
        return archcli.count_memory("gemma-4-e4b", "serve", seq_len=64, **options).totals["parts"]["weights"]

    of_layers = 262_144 * 10_752 * BF16
    assert weights(engine="vllm") - weights(engine="llamacpp") == of_layers


def test_llama_cpp_leaves_tables_in_ram_unless_the_head_is_the_table():
    def weights(model, engine):
        return archcli.count_memory(model, "serve", seq_len=64, engine=engine).totals["parts"]["weights"]

    table = 128_256 * 4096 * BF16
    assert weights("llama-3.1-8b", "vllm") - weights("llama-3.1-8b", "llamacpp") == table
    positions = 1024 * 768 * BF16
    assert weights("gpt2", "vllm") - weights("gpt2", "llamacpp") == positions


@pytest.mark.parametrize(
    ("n_layers", "devices", "cut"),
    [(32, 4, (9, 8, 8, 7)), (80, 2, (41, 39)), (80, 3, (27, 27, 26)), (24, 1, (24,)), (4, 4, (1, 1, 1, 1))],
)
def test_llama_cpp_counts_the_head_as_a_layer(n_layers, devices, cut):
    """Layer i of L is on device floor(i n / (L + 1)) of n, unless one had the head alone."""
    stages = stages_of(Plan(pp=devices), n_layers, with_head=True)
    assert tuple(stage.layers_of(range(n_layers)) for stage in stages) == cut
    if 2 * devices <= n_layers + 1:
        on = [i * devices // (n_layers + 1) for i in range(n_layers)]
        assert cut == tuple(on.count(device) for device in range(devices))


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt2", "gemma-2-2b"])
def test_stages_of_llama_cpp_hold_all_but_the_tables_in_ram(model):
    """A tied table is in RAM, and on the last device as the head."""

    def weights(devices):
        asked = {"phase": "serve", "seq_len": 64, "engine": "llamacpp", "pp": devices}
        ranks = archcli.count_memory(model, **asked).totals["ranks"]
        return sum(rank["parts"]["weights"] for rank in ranks), len(ranks)

    (alone, one), (together, three) = weights(1), weights(3)
    assert (one, three) == (1, 3)
    assert together == alone


def test_several_devices_of_llama_cpp_are_stages_without_a_communicator():
    asked = {"phase": "serve", "dtype": "q4_k_m", "seq_len": 2048, "batch_size": 4}
    for model, plan in (("llama-3.1-70b", (1, 2)), ("mixtral-8x7b", (1, 2)), ("gpt2", (1, 2))):
        report = archcli.count_memory(model, device="2xh100-sxm", engine="llamacpp", **asked)
        assert (report.inputs["plan"]["tp"], report.inputs["plan"]["pp"]) == plan
        assert "NCCL" not in {part["label"] for part in report.totals["beyond"]}


@pytest.mark.long
def test_what_llama_cpp_cannot_cut_takes_one_device():
    report = archcli.count_memory(
        "gemma-3n-e4b", "decode", device="2xh100-sxm", engine="llamacpp", seq_len=64
    )
    assert report.inputs["plan"]["pp"] == 1
    assert any(note.startswith("This plan uses 1 of 2 devices.") for note in report.notes)


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "layers", "experts", "logged_gib"),
    # vLLM 0.10.1 and 0.19 with Marlin's kernels: "Model loading took … GiB", biases of experts in fp32 beside
    [("gpt-oss-120b", 36, 128, 65.97), ("gpt-oss-20b", 24, 32, 13.72)],
)
def test_vllm_pads_experts_in_mxfp4(model, layers, experts, logged_gib):
    """2,880 and 2,880 to 3,072 and 2,944, at 4.25 bits."""

    def weights(engine, **plan):
        asked = {"seq_len": 64, "engine": engine, "device": "h100-sxm", **plan}
        return archcli.count_memory(model, "serve", **asked).totals["parts"]["weights"]

    more = layers * experts * 3 * (3072 * 2944 - 2880 * 2880) * 17 // 32
    assert weights("vllm") - weights("sglang") == more
    assert weights("vllm") / GIB == pytest.approx(logged_gib, rel=0.005)
    # of each rank's half of 1,440 an expert has 1,536
    more = layers * experts * 3 * (3072 * 1536 - 2880 * 1440) * 17 // 32
    shared = {"device": "2xh100-sxm", "tp": 2}
    assert weights("vllm", **shared) - weights("sglang", **shared) == more
    stages = {"device": "2xh100-sxm", "pp": 2}
    assert weights("vllm", **stages) > weights("sglang", **stages)
    # of an amount of memory nobody knows which kernels run
    assert weights("vllm", device=None) == weights("sglang")


@pytest.mark.parametrize(
    ("device", "chunk"), [("rtx-4090", 2048), ("h100-sxm", 8192), ("b200-sxm", 16384), (None, 16384)]
)
def test_a_chunk_depends_on_the_memory_of_the_device(device, chunk):
    asked = {"phase": "serve", "engine": "vllm", "seq_len": 32768, "device": device}
    report = archcli.count_memory("llama-3.1-8b", **asked)
    assert report.inputs["chunk"] == chunk
    stated = archcli.count_memory("llama-3.1-8b", **asked, chunk=chunk)
    assert stated.totals["peak_bytes"] == report.totals["peak_bytes"]


def test_the_share_of_a_device_is_the_engines_unless_it_is_stated():
    share = load_engine("vllm")["utilization"]
    whole = archcli.count_memory("gpt2", "serve", device="h100-sxm", utilization=1)
    assert archcli.count_memory("gpt2", "serve", device="h100-sxm").inputs["memory_bytes"] == int(
        whole.inputs["memory_bytes"] * share
    )
    stated = archcli.count_memory("gpt2", "serve", memory=80 * GIB)
    assert (stated.inputs["memory_bytes"], stated.inputs["utilization"]) == (80 * GIB, 1.0)


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize(
    ("options", "engine"),
    [
        ({}, "vllm"),
        ({"dtype": "q4_k_m"}, "llamacpp"),
        ({"dtype": "mlx-4bit"}, "mlx"),
        ({"device": "m3-pro"}, "llamacpp"),
        ({"kv_dtype": "q8_0"}, "llamacpp"),
        ({"attention": "eager"}, "none"),
        ({"phase": "train"}, "none"),
        ({"phase": "forward"}, "none"),
    ],
)
def test_the_engine_that_is_usual(options, engine):
    asked = {"phase": "decode", "seq_len": 64} | options
    assert archcli.count_memory("llama-3.2-1b", **asked).inputs["engine"] == engine
    if "attention" not in options and "mlx" not in engine:
        predicted = {"device": "h100-sxm", **asked}
        assert archcli.predict("llama-3.2-1b", **predicted).inputs.get("engine", "none") == engine


def test_eager_torch_names_what_an_engine_fuses_and_an_engine_does_not():
    def notes(engine):
        return "\n".join(archcli.count_memory("gpt-oss-20b", "prefill", seq_len=64, engine=engine).notes)

    assert "no fused kernel for layers.*.attention.attend" in notes("none")
    assert "no fused kernel" not in notes("vllm")


def test_what_does_not_fit_in_eager_torch_fits_in_an_engine():
    asked = {"phase": "prefill", "seq_len": 32_768, "device": "rtx-4090"}
    eager = archcli.count_memory("gpt-oss-20b", **asked, engine="none").totals
    assert (eager["fits"], eager["change"]["change"]) == (False, "--engine vllm")
    assert archcli.count_memory("gpt-oss-20b", **asked).totals["fits"]
    # vLLM pads the experts, samples 256 sequences at first and holds graphs: up to 1 GiB more than there is
    on_16_gb = {**asked, "device": "rtx-5080"}
    assert archcli.count_memory("gpt-oss-20b", **on_16_gb, engine="llamacpp").totals["fits"]
    assert not archcli.count_memory("gpt-oss-20b", **{**on_16_gb, "seq_len": 8192}).totals["fits"]


def test_no_engine_is_a_way_out_that_does_not_read_the_format():
    asked = {"phase": "decode", "seq_len": 512, "device": "rtx-3060", "dtype": "q4_k_m", "engine": "none"}
    totals = archcli.count_memory("llama-3.1-70b", **asked).totals
    assert (totals["fits"], totals["change"]) == (False, None)


@pytest.mark.long
@every_row("engine", ["vllm", "none"])
@every_row("dtype", ["bf16", "fp8", "awq-int4"])
@every_row("phase", ["prefill", "decode", "serve"])
def test_memory_and_predict_agree(phase, dtype, engine):
    asked = {"phase": phase, "batch_size": 4, "seq_len": 3000, "device": "l4"}
    asked |= {"dtype": dtype, "engine": engine}
    asked |= {"new": 64} if phase == "serve" else {}
    memory, predict = (ask("llama-3.1-8b", **asked).totals for ask in (archcli.count_memory, archcli.predict))
    assert memory["peak_bytes"] + memory["beyond_bytes"] == predict["needed_bytes"]
    assert memory["fits"] == predict["fits"]
