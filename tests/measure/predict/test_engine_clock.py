"""Kernels of engines in predictions: which call, whose constants, and what a live server adds."""

import itertools
from pathlib import Path

import pytest
import yaml

import archcli
from archcli.load.source import load
from archcli.measure.kvcache.engine import ANY_ENGINE
from archcli.wings.serving.api.known_device.known import known_device
from archcli.wings.serving.devices.engines import load_engine
from archcli.wings.serving.launches.kernel import AttentionCall, KernelCost
from archcli.wings.serving.memory.plan import ONE_DEVICE, Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.answers.tables import shown_path
from archcli.wings.serving.predict.engine_kernels.delta_net import DeltaCall, DeltaKernelCall
from archcli.wings.serving.predict.live import LiveServer
from archcli.wings.serving.predict.rank.kernels import CacheUse, rank_kernels
from archcli.wings.serving.predict.rank.planned import planned_pass
from uneven import reached_by_power

ROOT = Path(__file__).parents[3]
MICRO = 1e-6
IN_PLACE = CacheUse("in_place")


def clock(engine="vllm", device="h100-sxm"):
    return known_device(device).timed.kernels_of(engine)


def attention(*call, **more):
    return KernelCost("", 0, 0, 0, "bf16", AttentionCall(*call, **more))


def kernels(model, phase, batch, tokens, plan=ONE_DEVICE, use=IN_PLACE, **more):
    """The kernels of a served pass by the name of their last operation."""
    settings = MemorySettings(phase, batch, tokens, engine=ANY_ENGINE, **more)
    found = rank_kernels(planned_pass(load(model).model, settings, plan), settings, plan, use).kernels
    return {run.path.rpartition(".")[2]: run.kernel for run in found}


def test_a_call_is_timed_by_the_formula_of_the_page():
    """docs/engines.md works this call out: 64 sequences of 4,096, 32 query heads, 8 key heads of 128."""
    found = clock().kernel(attention(64, 1, 4096, 32, 8, 128, 128))
    assert found.seconds == pytest.approx(361.676 * MICRO, rel=1e-4)
    assert found.low < 1 < found.high


def test_a_chunk_is_the_prompt_without_what_is_cached():
    whole, half = (clock().kernel(attention(1, n, n, 32, 8, 128, 128)).seconds for n in (8192, 4096))
    chunk = clock().kernel(attention(1, 4096, 8192, 32, 8, 128, 128)).seconds
    assert whole - half < chunk < whole


def test_the_forward_states_the_call_of_attention():
    """Llama 3.1 8B on two devices: each has 16 of 32 query heads and 4 of 8 key heads of 128."""
    call = kernels("llama-3.1-8b", "decode", 3, 100, Plan(tp=2))["attend"].call
    assert call == AttentionCall(3, 1, 101, 16, 4, 128, 128)
    assert kernels("llama-3.1-8b", "prefill", 3, 100)["attend"].call == AttentionCall(
        3, 100, 100, 32, 8, 128, 128
    )


def test_a_window_and_a_latent_are_part_of_the_call():
    """gpt-oss sees 128 tokens in half of its layers; all heads of DeepSeek-V3 share one key of 576."""
    settings = MemorySettings("decode", 2, 1000, engine=ANY_ENGINE)
    planned = planned_pass(load("gpt-oss-20b").model, settings, Plan())
    found = rank_kernels(planned, settings, Plan(), IN_PLACE).kernels
    calls = {run.kernel.call for run in found if run.path.endswith(".attend")}
    assert {(call.window, call.length) for call in calls} == {(0, 1001), (128, 1001)}
    call = kernels("deepseek-v3", "decode", 2, 1000)["attend"].call
    assert call == AttentionCall(2, 1, 1001, 128, 1, 576, 512, latent=True)


def test_experts_run_as_one_kernel():
    """DeepSeek-V3: 16 tokens choose 8 of 256 experts, 2,048 wide, that three matrices of 7,168 make."""
    found = kernels("deepseek-v3", "decode", 16, 100, Plan(tp=2))
    sizes = found["combine"].call.sizes
    assert sizes[:3] == (7168, 1024, 3)
    assert sizes.touched == pytest.approx(reached_by_power(256, 8, 16))
    assert (sizes.rows, sizes.all_rows) == (128, 128)
    assert sizes.weight_bytes == pytest.approx(2, rel=1e-3)
    elements = 3 * 7168 * 1024
    assert found["combine"].flops == 2 * 128 * elements
    assert found["combine"].bytes == pytest.approx(2 * (sizes.touched * elements + 2 * 16 * 7168), rel=1e-3)


def test_engines_join_siblings():
    """One product reads 8 tokens once and the weights of q, k and v: (32 + 2 x 8) heads of 128, of 4,096."""
    product = kernels("llama-3.1-8b", "decode", 8, 100)["v_proj"]
    assert product.flops == 2 * 8 * 4096 * 48 * 128
    assert product.bytes == 2 * (4096 * 48 * 128 + 8 * 4096 + 8 * 48 * 128)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b", "deepseek-v2-lite"])
def test_figures_are_in_order_and_grow_with_batch_and_length(engine, model):
    found = {}
    for batch, length in itertools.product((1, 8, 64), (128, 4096)):
        asked = {"phase": "serve", "new": 16, "engine": engine}
        totals = archcli.predict(model, "h100-sxm", batch_size=batch, seq_len=length, **asked).totals
        for name in ("time_s", "first_token_s", "per_token_s"):
            one = totals[name]
            assert one["floor"] <= one["low"] <= one["expected"] <= one["high"]
            found[name, batch, length] = one["expected"]
    for (name, batch, length), seconds in found.items():
        for more in ((name, 8 * batch, length), (name, batch, 32 * length)):
            assert found.get(more, seconds) >= seconds


def test_another_device_of_the_generation_lends_its_constants():
    report = archcli.predict("llama-3.1-8b", "h100-nvl", engine="vllm")
    assert any("h100-nvl has constants of h100-sxm" in note for note in report.notes)
    own = archcli.predict("llama-3.1-8b", "h100-sxm", engine="vllm")
    assert not any("has constants of" in note for note in own.notes)

    def width(found):
        return found.totals["time_s"]["high"] / found.totals["time_s"]["low"]

    assert width(report) == pytest.approx(1.15**2 * width(own), rel=1e-6)


def test_a_device_without_constants_of_products_borrows_them():
    """B300: its kernels of engines were measured, its matrix products were not."""
    eager = archcli.predict("llama-3.1-8b", "b300-sxm", engine="none")
    assert eager.totals["time_s"]["expected"] is None
    found = archcli.predict("llama-3.1-8b", "b300-sxm", engine="vllm")
    assert found.totals["time_s"]["expected"] > found.totals["time_s"]["floor"]
    assert any("b200-sxm" in note for note in found.notes)
    found = archcli.predict("gpt2", "mi300x", engine="vllm")
    time = found.totals["time_s"]
    assert time["expected"] is None
    # no row takes longer than at the limit, as if its kernel were measured
    assert sum(row["time_s"] for row in found.rows) == pytest.approx(time["floor"])


def test_a_full_server_that_nobody_timed_has_the_limit_alone():
    """MI300X: servers of a mixture were timed with several requests, and not with more than run at once."""
    asked = {"engine": "vllm", "phase": "serve"}
    several = archcli.predict("qwen3-30b-a3b", "mi300x", batch_size=64, **asked).totals
    assert several["time_s"]["expected"] > several["time_s"]["floor"]
    full = archcli.predict("qwen3-30b-a3b", "mi300x", batch_size=5000, **asked)
    assert full.totals["at_once"] < 5000
    assert full.totals["time_s"]["expected"] is None
    assert sum(limit["share"] for limit in full.totals["limits"]) <= 1.01
    why = "no measurements of vLLM with such a model and load on such a device"
    assert why in full.totals["sentence"]
    assert why in full.convention
    assert not any("reach of the device's peaks" in what for what in full.not_modelled)


def test_where_unmeasured_kernels_take_more_than_a_tenth_there_is_the_limit_alone(tmp_path):
    """H100 without constants of attention: a short context is expected, of a long one the limit is known."""
    sheet = yaml.safe_load((ROOT / "devices" / "h100-sxm.yaml").read_text())
    del sheet["efficiency"]["attention"]
    path = tmp_path / "partly.yaml"
    path.write_text(yaml.safe_dump({**sheet, "name": "partly"}))
    asked = {"phase": "prefill", "engine": "none"}
    short, long = (archcli.predict("llama-3.1-8b", str(path), seq_len=n, **asked) for n in (256, 32768))
    assert short.totals["time_s"]["expected"] > short.totals["time_s"]["floor"]
    assert any(what.startswith("Kernels without measurements") for what in short.not_modelled)
    assert long.totals["time_s"]["expected"] is None
    assert sum(row["time_s"] for row in long.rows) == pytest.approx(long.totals["time_s"]["floor"])
    assert "kernels without measurements take more than 10% of the time" in long.totals["sentence"]


GA10X = ("rtx-3060", "rtx-3070", "rtx-3080-12gb", "rtx-3090", "rtx-3090-ti", "rtx-a2000", "rtx-a6000")
SERVERS = ("a10", "a10g", "a40")


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("device", [*GA10X, *SERVERS])
def test_cards_of_sm_86_have_products_of_an_a40_and_attention_of_an_a100(device):
    found = archcli.predict("llama-3.1-8b", device, engine="vllm")
    time = found.totals["time_s"]
    assert time["floor"] <= time["low"] < time["expected"] < time["high"]
    assert any(f"{device} has constants of a100-sxm-80gb" in note for note in found.notes)
    assert found.totals["device"]["source"].startswith("vidur_ops.csv")
    assert ("of a40" in found.totals["device"]["source"]) is (device != "a40")


@pytest.mark.parametrize("device", ["rtx-5060-ti", "rtx-5080", "rtx-5090", "rtx-pro-6000-max-q"])
def test_cards_of_sm_120_have_constants_of_an_rtx_pro_6000(device):
    found = archcli.predict("llama-3.1-8b", device, engine="vllm")
    time = found.totals["time_s"]
    assert time["floor"] <= time["low"] < time["expected"] < time["high"]
    assert any(f"{device} has constants of rtx-pro-6000-server, the" in note for note in found.notes)
    assert "aiconfigurator_gemm_sample.csv of rtx-pro-6000-server" in found.totals["device"]["source"]


def test_mixtures_in_four_bits_are_expected_on_cards_of_sm_86():
    """No engine's experts were measured in mxfp4 on an A100: those in int4 stand in."""
    for engine in ("vllm", "sglang"):
        time = archcli.predict("gpt-oss-20b", "rtx-3090", engine=engine).totals["time_s"]
        assert time["floor"] < time["low"] < time["expected"] < time["high"]


def test_collectives_are_borrowed_of_a_link_of_the_same_kind():
    """Four RTX 3090 share a bus as four L40S do; an A100 has NVLink."""
    asked = {"plan": {"tp": 4}, "engine": "vllm", "phase": "prefill"}
    found = archcli.predict("llama-3.1-8b", "4xrtx-3090", **asked)
    assert "All-reduces have constants of l40s, whose link is of the same kind." in found.notes
    served, lender = clock(device="rtx-3090"), clock(device="l40s")
    for size in (1 << 13, 1 << 20, 1 << 24):
        assert served.exchange(4, size).seconds == pytest.approx(lender.exchange(4, size).seconds)
    assert clock(device="a100-sxm-40gb").links_of() == clock(device="h100-sxm").links_of() == ""
    assert clock(device="h100-pcie").links_of() == "rtx-pro-6000-server"
    one = archcli.predict("llama-3.1-8b", "rtx-3090", engine="vllm")
    assert not any("All-reduces" in note for note in one.notes)


def test_an_engines_all_reduce_is_quicker_than_that_of_a_library():
    asked = {"phase": "decode", "plan": {"tp": 8}, "seq_len": 1000}
    served, plain = (
        archcli.predict("llama-3.1-70b", "8xh100-sxm", engine=engine, **asked).totals["communication"][0]
        for engine in ("vllm", "none")
    )
    assert served["bytes"] == plain["bytes"]
    assert served["time_s"] < plain["time_s"] / 3


LIVE = {"seq_len": 2048, "batch_size": 8, "new": 64, "phase": "serve"}


def passes(engine):
    """The prefill of one of the sequences, and the first and the last step of all of them."""
    asked = {"engine": engine}
    prefill = archcli.predict("llama-3.1-8b", "h100-sxm", phase="prefill", seq_len=2048, **asked)
    steps = [
        archcli.predict("llama-3.1-8b", "h100-sxm", phase="decode", batch_size=8, past=past, **asked)
        for past in (2048, 2048 + 63)
    ]
    return prefill, steps


def expected(report):
    return report.totals["time_s"]["expected"]


@pytest.mark.long
def test_a_live_token_waits_for_prefills_of_others():
    """7 other prompts: a share runs before the first token, the rest while 64 tokens are made."""
    live = LiveServer.of(load_engine("sglang"), "", "dense")
    prefill, steps = passes("sglang")
    served = archcli.predict("llama-3.1-8b", "h100-sxm", engine="sglang", **LIVE).totals
    # the prompt alone has the factor of a first token
    of_token, of_first = (live.kinds[f"{what} several dense"]["slower"] for what in ("token", "first"))
    late = (1 - live.waits) * 7 / 64 * expected(prefill) * of_token / of_first
    token = sum(map(expected, steps)) / 2 + late
    assert served["per_token_s"]["expected"] == pytest.approx(token, rel=1e-3)
    first = expected(prefill) * (1 + live.waits * 7) + of_first * live.first_s
    first += expected(steps[0]) * of_first / of_token
    assert served["first_token_s"]["expected"] == pytest.approx(first, rel=1e-6)
    assert 0 < live.speed <= 1.1


def test_a_prompt_in_a_step_reads_the_weights_that_the_step_reads():
    """vLLM: a product takes as long as the longer of both, attention as long as both."""
    live = LiveServer.of(load_engine("vllm"), "", "dense")
    prefill, steps = passes("vllm")
    of_step = {(row["path"], row["kernel"]): row["time_s"] for row in steps[0].rows}
    added = sum(
        row["time_s"]
        if row["class"] == "fused_attention"
        else max(0, row["time_s"] - of_step.get((row["path"], row["kernel"]), 0))
        for row in prefill.rows
    )
    served = archcli.predict("llama-3.1-8b", "h100-sxm", engine="vllm", **LIVE).totals
    of_token, of_first = (live.kinds[f"{what} several dense"]["slower"] for what in ("token", "first"))
    late = (1 - live.waits) * 7 / 64 * added / live.speed * of_token
    token = sum(map(expected, steps)) / 2 + late
    assert served["per_token_s"]["expected"] == pytest.approx(token, rel=1e-3)
    assert 0.5 * expected(prefill) < of_first * added / live.speed < expected(prefill)


@pytest.mark.long
def test_prompts_follow_one_another_through_stages():
    """Of 8 prompts in 4 stages each adds an eighth of the time of all, less than it takes alone."""
    asked = {"engine": "vllm", "plan": {"pp": 4}, "batch_size": 8}
    live = LiveServer.of(load_engine("vllm"), "", "dense")
    prefill = archcli.predict("llama-3.1-8b", "4xh100-sxm", phase="prefill", seq_len=2048, **asked)
    steps = [
        archcli.predict("llama-3.1-8b", "4xh100-sxm", phase="decode", past=past, **asked)
        for past in (2048, 2048 + 63)
    ]
    served = archcli.predict("llama-3.1-8b", "4xh100-sxm", **LIVE | asked).totals
    of_token, of_first = (live.kinds[f"{what} several dense"]["slower"] for what in ("token", "first"))
    late = (1 - live.waits) * 7 / 64 * expected(prefill) / 8 * of_token / of_first
    token = sum(map(expected, steps)) / 2 + late
    assert served["per_token_s"]["expected"] == pytest.approx(token, rel=1e-3)


@pytest.mark.long
def test_sequences_without_room_in_the_cache_wait_for_those_that_run():
    """Llama 3.1 70B in fp8 on one H200: of 128 sequences as many run as `memory --fit batch` says."""
    asked = {"engine": "trtllm", "phase": "serve", "seq_len": 1024, "new": 8192, "dtype": "fp8"}
    fitted = archcli.count_memory("llama-3.1-70b", device="h200-sxm", fit="batch", **asked).totals["fit"]
    all_of_them, running = (
        archcli.predict("llama-3.1-70b", "h200-sxm", batch_size=number, **asked).totals
        for number in (128, fitted["value"])
    )
    assert all_of_them["at_once"] == running["at_once"] == fitted["value"] < 128
    rounds, kinds = 128 / fitted["value"], load_engine("trtllm")["kinds"]
    # each has the factor of its kind; all of several that of a token, as nobody timed all of them
    of = {
        kind: kinds[f"{kind} dense"]["slower"]
        for kind in ("token full", "token several", "first several", "whole full")
    }
    of_first = running["first_token_s"]["expected"] / of["first several"]
    of_token = running["per_token_s"]["expected"] / of["token several"]
    assert all_of_them["per_token_s"]["expected"] == pytest.approx(of_token * of["token full"])
    of_round = of_first + 8192 * of_token
    assert running["time_s"]["expected"] == pytest.approx(of["token several"] * of_round)
    # those before them have a first token and all others; how long a queue takes no server tells
    assert all_of_them["time_s"]["expected"] == pytest.approx(of["whole full"] * rounds * of_round)
    assert all_of_them["first_token_s"]["expected"] is None
    assert f"{fitted['value']} of 128 sequences run at once" in all_of_them["sentence"]


@pytest.mark.long
def test_a_server_takes_in_as_many_sequences_as_its_engine_schedules():
    asked = {"phase": "serve", "seq_len": 16, "new": 4, "engine": "vllm"}
    found = archcli.predict("gpt2", "h100-sxm", batch_size=2000, **asked).totals
    assert (found["at_once"], found["fits"]) == (1024, True)
    assert archcli.predict("gpt2", "l40s", batch_size=2000, **asked).totals["at_once"] == 256
    alone = archcli.predict("gpt2", "h100-sxm", batch_size=7, **asked).totals
    assert (alone["at_once"], "run at once" in alone["sentence"]) == (7, False)


@pytest.mark.long
def test_the_floor_of_a_token_has_the_products_of_the_prompts_of_others():
    """31 prompts of 8,192 tokens in 16 steps, at the peak."""
    asked = {"seq_len": 8192, "engine": "vllm"}
    served = archcli.predict("llama-3.1-8b", "h100-sxm", phase="serve", batch_size=32, new=16, **asked)
    step = archcli.predict("llama-3.1-8b", "h100-sxm", phase="decode", batch_size=32, **asked)
    prefill = archcli.predict("llama-3.1-8b", "h100-sxm", phase="prefill", **asked)
    flops = sum(row["flops"] for row in prefill.rows if row["class"] in {"contraction", "fused_attention"})
    floor = served.totals["per_token_s"]["floor"]
    assert floor == pytest.approx(31 / 16 * flops / 989.4e12, rel=0.01)
    assert floor > 3 * step.totals["time_s"]["floor"]
    one = archcli.predict("llama-3.1-8b", "h100-sxm", phase="serve", batch_size=1, new=1, **asked).totals
    alone = archcli.predict("llama-3.1-8b", "h100-sxm", phase="decode", batch_size=1, **asked).totals
    assert one["per_token_s"]["floor"] == pytest.approx(alone["time_s"]["floor"])


def test_reads_of_each_head_are_older_kernels():
    """TensorRT-LLM of 2023: no kernel of the tables, no live server."""
    asked = {"phase": "serve", "new": 4, "batch_size": 4, "engine": "trtllm"}
    old = archcli.predict("llama-2-7b", "h100-sxm", kv_read="heads", **asked)
    new = archcli.predict("llama-2-7b", "h100-sxm", **asked)
    assert any("live server" in note for note in new.notes)
    assert not any("live server" in note for note in old.notes)


def test_a_joined_path_is_shown_in_short():
    assert shown_path("layers.0.ffn.gate_proj + layers.0.ffn.up_proj") == "layers.*.ffn.gate_proj + up_proj"
    many = " + ".join(f"layers.3.ffn.{name}" for name in ("route", "dispatch", "experts.up", "x", "combine"))
    assert shown_path(many) == "layers.*.ffn.route + … + combine"
    assert shown_path("lm_head") == "lm_head"


def test_a_delta_net_reads_its_states_once():
    """Qwen3-Next: 16 heads of keys, 32 of values, 128 wide; a state of 128 x 128 for each value head."""
    found = kernels("qwen3-next-80b-a3b", "decode", 5, 100)
    scan, convolution = found["scan"], found["v_act"]
    assert scan.call == DeltaKernelCall("recurrence", DeltaCall(16, 32, 5, 1))
    states, tokens, gates = 32 * 128 * 128, (2 * 16 + 2 * 32) * 128, 2 * 32
    assert scan.bytes == 2 * 5 * (2 * states + tokens + gates)
    assert convolution.call == DeltaKernelCall("convolution", DeltaCall(16, 32, 5, 1))
    assert clock().kernel(scan).seconds > 0


def test_other_scans_are_one_kernel_without_constants():
    scan = kernels("mamba-130m", "decode", 5, 100)["scan"]
    assert (scan.name, scan.call) == ("_recurrence_of_engine", None)
