"""The work of a training step: kernels, recomputation, micro batches, the update, and what is sent."""

import pytest

from archcli import predict
from archcli.graph.kept import Execution
from archcli.load import load
from archcli.modules.spec.request import Request
from archcli.wings.serving.launches.trace import trace_kernels
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.communication.collective import Fabric
from archcli.wings.serving.predict.constants import Efficiency, Origin, Rates, StepConstants
from archcli.wings.serving.predict.rank.training import StepWork, training_work, work_of
from archcli.wings.serving.predict.times import KernelClock

D, F, V, L, B, T = 64, 256, 1000, 4, 2, 128
MODEL = {
    "name": "tiny",
    "vocab_size": V,
    "d_model": D,
    "max_seq_len": T,
    "norm": {"kind": "layernorm", "eps": 1e-5},
    "embedding": {"tied": True, "position": {"kind": "learned"}},
    "groups": [
        {
            "n_layers": L,
            "layer": {
                "kind": "pre_norm",
                "attention": {"kind": "mha", "n_heads": 4, "bias": True},
                "ffn": {"kind": "mlp", "activation": "gelu", "d_ff": F, "bias": True},
            },
        }
    ],
}
ORIGIN = Origin(0.03, 0.9, 1.1, 40, "a table", "2026-11-23")
PEAK, BANDWIDTH, LINK = 100e12, 1000e9, 50e9
CLOCK = KernelClock(
    Rates.of("mine", {"bf16_tflops": PEAK / 1e12, "bandwidth_gb_s": BANDWIDTH / 1e9}), Efficiency({})
)
FABRIC = Fabric("mine", LINK / 1e9, LINK / 1e9)
ONE = Plan()


@pytest.fixture(scope="module")
def model():
    return load(MODEL)


def worked(model, plan=ONE, **settings):
    """The work of a step of the tiny model."""
    settings = MemorySettings(batch_size=B, seq_len=T, **settings)
    return training_work(model, settings, plan, CLOCK, FABRIC)


def kernels(model):
    return trace_kernels(model, Request("train", B, T), Execution())


def test_a_step_is_all_kernels_the_loss_and_the_update(model):
    total = StepWork()
    for run in kernels(model):
        total += work_of(CLOCK.time(run.kernel, run.op_class)).scaled(run.times)
    params = V * D + T * D + L * (4 * (D * D + D) + 2 * D * F + F + D + 4 * D) + 2 * D
    loss, update = 3 * B * T * V * 2 / BANDWIDTH, 7 * params * 2 / BANDWIDTH
    # with states in bf16 AdamW moves weight, gradient and two moments, all but the gradient both ways
    work = worked(model, optimizer="adamw")
    assert work.products == pytest.approx(total.products, rel=1e-12)
    assert work.attention == pytest.approx(total.attention, rel=1e-12)
    assert work.memory_bound == pytest.approx(total.memory_bound + loss + update, rel=1e-12)
    assert work.communication == 0


def test_without_constants_of_products_they_take_their_roofline(model):
    """The longer of FLOPs at the peak and bytes at the bandwidth, kernel by kernel."""
    rooflines = [
        max(run.kernel.flops / PEAK, run.kernel.bytes / BANDWIDTH) * run.times
        for run in kernels(model)
        if run.op_class == "contraction"
    ]
    assert len(rooflines) > 10
    assert worked(model).products == pytest.approx(sum(rooflines), rel=1e-12)


def test_recomputation_runs_all_of_a_layer_but_what_is_behind_the_last_that_keeps_something(model):
    """Autograd has saved the inputs of the last product when checkpointing stops: it does not run again."""
    again = StepWork()
    for run in kernels(model):
        behind = run.path.endswith(("down_proj", "ffn_residual"))
        if run.stage == "forward" and run.path.startswith("layers.") and not behind:
            again += work_of(CLOCK.time(run.kernel, run.op_class)).scaled(run.times)
    plain, recomputed = worked(model), worked(model, recompute="layer")
    for part in ("floor", "products", "memory_bound", "attention"):
        more = getattr(recomputed, part) - getattr(plain, part)
        assert more == pytest.approx(getattr(again, part), rel=1e-9), part


def test_micro_batches_repeat_all_but_the_update(model):
    one, four = (worked(model, grad_accum=n, optimizer="adamw") for n in (1, 4))
    assert four.products == pytest.approx(4 * one.products, rel=1e-12)
    params = V * D + T * D + L * (4 * (D * D + D) + 2 * D * F + F + D + 4 * D) + 2 * D
    update = 7 * 2 * params / BANDWIDTH
    assert 4 * one.memory_bound - four.memory_bound == pytest.approx(3 * update, rel=1e-9)


def test_fsdp_sends_weights_twice_and_gradients_once(model):
    """Of each layer two gathers and a scatter of 7 / 8 of it, of the rest one gather and a scatter."""
    layers = L * (4 * (D * D + D) + 2 * D * F + F + D + 4 * D)
    root = V * D + T * D + 2 * D
    work = worked(model, Plan(dp=8, zero=3))
    assert work.communication == pytest.approx(7 / 8 * 2 * (3 * layers + 2 * root) / LINK, rel=1e-12)
    assert work.products == pytest.approx(worked(model).products, rel=1e-12)


def test_stages_share_layers_and_wait_for_each_other(model):
    """Two stages of two layers each; the last has the head too, and one of m + 1 slots of time is waiting."""
    whole, layers = worked(model), 0.0
    for run in kernels(model):
        if run.op_class == "contraction" and run.path.startswith("layers."):
            layers += work_of(CLOCK.time(run.kernel, run.op_class)).products * run.times
    head = whole.products - layers
    piped = worked(model, Plan(pp=2, micro_batches=4))
    assert piped.products == pytest.approx((4 + 1) * (layers / 2 + head), rel=1e-9)


CONSTANTS = StepConstants(0.5, 0.25, 0.2, 2.0, ORIGIN)


def test_the_parts_of_a_step_are_divided_by_their_constants():
    work = StepWork(floor=5.0, products=4.0, memory_bound=1.0, attention=0.5, communication=3.0)
    expected = 4 / 0.5 + 1 / 0.25 + 0.5 / 0.2 + 3 / 2
    seconds = work.seconds(CONSTANTS)
    assert seconds.expected == pytest.approx(expected)
    assert (seconds.low, seconds.high) == pytest.approx((0.9 * expected, 1.1 * expected))
    assert (seconds.floor, work.bound_by(CONSTANTS)) == (5.0, "compute")
    assert work.parts(CONSTANTS)["communication"] == 1.5


def test_the_low_end_of_attention_is_that_of_the_fastest_kernels():
    """Below that of whole steps where they are that much faster; never faster than these kernels."""
    assert CONSTANTS.attention_low == CONSTANTS.origin.low == 0.9
    assert CONSTANTS._replace(attention_best=0.21).attention_low == 0.9
    assert CONSTANTS._replace(attention_best=0.4).attention_low == pytest.approx(0.2 / 0.4)


def test_a_step_of_a_million_tokens_lies_in_the_range():
    """364 to 380 s on 8 x H100 with context parallelism (huggingface/trl#6845 and #6846, of 2026)."""
    asked = {"seq_len": 2**20, "recompute": "layer", "cp": 8, "zero": 3}
    time = predict("qwen3-8b", device="8xh100-sxm", phase="train", batch_size=1, **asked).totals["time_s"]
    assert time["low"] <= 364
    assert time["high"] >= 380


def test_a_floor_hides_communication_behind_compute_or_compute_behind_it():
    work = StepWork(floor=5.0, products=4.0, memory_bound=1.0, communication=9.0)
    known = work.seconds(None).record()
    assert [*known.values()] == [9.0, None, None, None]
    assert (work.bound_by(None), work.bound_by(CONSTANTS)) == ("link", "compute")


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("ranks", [8, 64])
def test_an_exchange_longer_than_the_computing_is_not_hidden(ranks, zero):
    """A step of one short sequence a rank: 16 GB of gradients, 1,024 tokens at most to hide them."""
    for tokens in (16, 1024):
        sequence = {"phase": "train", "batch_size": 1, "seq_len": tokens}
        report = predict("llama-3.1-8b", device=f"{ranks}xa100-sxm-40gb", dp=ranks, zero=zero, **sequence)
        time = report.totals["time_s"]
        assert time["floor"] <= time["low"] <= time["expected"] <= time["high"]


@pytest.mark.parametrize(
    ("model", "device", "batch", "batches", "measured"),
    [
        ("qwen2.5-0.5b", "rtx-4090", 8, 64, 40_000),
        ("qwen2.5-1.5b", "rtx-4090", 4, 128, 14_000),
        ("qwen2.5-0.5b", "rtx-5090", 8, 64, 55_000),
        ("qwen2.5-3b", "l40s", 4, 128, 8_900),
        ("qwen2.5-1.5b", "rtx-pro-6000-server", 32, 16, 32_000),
    ],
)
def test_a_step_on_workstations_and_geforce_is_as_fast_as_llmq_measured(
    model, device, batch, batches, measured
):
    """Tokens a second by the README of llmq, whose kernels are fused; no constant was fitted on them."""
    asked = {"phase": "train", "batch_size": batch, "seq_len": 1024, "grad_accum": batches, "compiled": True}
    rate = predict(model, device, **asked).totals["tokens_per_s"]
    assert rate["expected"] == pytest.approx(measured, rel=0.13)
    assert rate["low"] <= measured <= rate["floor"]


SHARED_BY_MANY = [
    # Megatron-Bridge, docs/performance-summary.md at 00b7660, BF16: tokens a second of a GPU
    ("gpt-oss-120b", "64xgb200", 15_876, {"seq_len": 8192, "grad_accum": 20, "dp": 64, "ep": 64}),
    (
        "qwen3-235b-a22b",
        "256xgb200",
        4_916,
        {"seq_len": 4096, "dp": 32, "pp": 8, "ep": 32, "micro_batches": 256}
        | {"schedule": "interleaved", "virtual_stages": 3},
    ),
]


@pytest.mark.parametrize(("model", "device", "measured", "asked"), SHARED_BY_MANY)
def test_a_step_with_megatron_has_its_fused_kernels(model, device, measured, asked):
    totals = predict(model, device, phase="train", zero=1, trainer="megatron", **asked).totals
    rate = {end: tokens / int(device.split("x")[0]) for end, tokens in totals["tokens_per_s"].items()}
    assert rate["low"] <= measured <= rate["high"] <= rate["floor"]
    assert rate["expected"] == pytest.approx(measured, rel=0.18)


@pytest.mark.parametrize("trainer", ["nanogpt", "trl", "unsloth"])
def test_weights_in_fp32_compute_in_what_autocast_computes_in(trainer):
    """qwen2.5-7b on an H100: 6 FLOPs a token and parameter of 7.07e9 in products, at 989 and 66.9 TFLOP/s."""
    asked = {"phase": "train", "batch_size": 4, "seq_len": 2048, "trainer": trainer, "method": "full"}
    report = predict("qwen2.5-7b", "h100-sxm", recompute="none", **asked)
    in_fp32, in_bf16 = (6 * 7.07e9 * 4 * 2048 / peak for peak in (66.9e12, 989.4e12))
    assert in_bf16 < report.totals["time_s"]["floor"] < report.totals["time_s"]["high"] < in_fp32
    # 7.62e9 weights and gradients of four bytes are read at 3.35 TB/s
    update = next(row for row in report.rows if row["path"] == "update")
    assert update["floor_s"] > 7.62e9 * (4 + 4) / 3.35e12
    assert "Casts of weights by autocast, in each micro batch." in report.not_modelled
