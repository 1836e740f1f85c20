"""Training steps of frameworks beside llm-foundry: Megatron-LM on A100 and B200, torchtitan on H100.

Nothing but the steps on B200 is fitted on them. They tell how far a step of another framework is from the
constants of llm-foundry's, and so the range of a training step.
"""

import re
from functools import cache
from typing import NamedTuple

import numpy as np

from archcli.load import load
from archcli.measure.passes import count_pass
from archcli.modules.spec.request import Request
from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.communication.collective import Fabric
from archcli.wings.serving.predict.constants import Efficiency, StepConstants
from archcli.wings.serving.predict.prediction import predict_pass
from archcli.wings.serving.predict.rank.rank_times import TimingDevice
from archcli.wings.serving.predict.rank.stage_step import OF_REPLICAS
from archcli.wings.serving.predict.times import ATTENTION, PRODUCTS, KernelClock, kind_of
from efficiency import steps
from efficiency.held_out import OUTER, fit, mean_error, rounded
from efficiency.newer import attention_best, trainers
from efficiency.tables import rates, table

MEGATRON_B200, MEGATRON_A100, TORCHTITAN = "simumax_b200.csv", "megatron_train.csv", "torchtitan_train.csv"
FOUNDRY = "llm-foundry"
B200, H100, A100 = "b200-sxm", "h100-sxm", "a100-sxm-80gb"
IN_FP32 = {"gradients": "fp32", "optimizer": "adamw-mixed-fused"}
"""The recipe of Megatron-LM."""
KEPT = ("attention.attend", "attention.q_proj", "attention.v_proj", "ffn.gate_proj", "ffn.down_proj")
SELECTIVE = ",".join(("layer", *(f"keep:layers.*.{path}" for path in KEPT)))
"""torchtitan's selective checkpointing: attention and every second product keep their results."""


class Step(NamedTuple):
    """A measured step: the framework, its model, settings, plan and device, and its seconds."""

    framework: str
    fold: str
    model: dict
    settings: MemorySettings
    plan: Plan
    device: str
    seconds: float
    compiled: bool = False


def number(text, name, default=1):
    """The number behind a name in a case such as llama3_70b_l12_tp8."""
    found = re.search(rf"(?:^|[_,]){name}(\d+)", text)
    return int(found[1]) if found else default


DENSE = {"llama3_70b": (8192, 64, 8, 28672), "llama3_405b": (16384, 128, 16, 53248)}
"""d_model, heads, key heads and d_ff."""
LATENT = {
    "deepseekv2": (102400, 5120, 12288, {"n_experts": 160, "top_k": 6}, 1536, 3072),
    "deepseekv3": (129280, 7168, 18432, {"n_experts": 256, "top_k": 8}, 2048, 2048),
}
"""Words, d_model, d_ff of the first layer, experts, and widths of one expert and of the shared ones."""


def of_case(case):
    """The architecture of a row of SimuMax, by its configs/models, cut to so many layers."""
    name = next(name for name in (*DENSE, *LATENT) if case.startswith(name))
    n_layers = number(case, "l")
    if name in DENSE:
        d_model, heads, key_heads, d_ff = DENSE[name]
        attention = {"kind": "gqa", "n_heads": heads, "n_kv_heads": key_heads, "position": "rope"}
        layers = [(n_layers, {"kind": "glu", "d_ff": d_ff})]
        vocab = 128256
    else:
        vocab, d_model, d_ff, experts, width, shared = LATENT[name]
        sizes = {"q_lora_rank": 1536, "kv_lora_rank": 512, "v_head_dim": 128}
        heads = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "n_heads": 128}
        attention = {"kind": "mla", "position": "rope", **sizes, **heads}
        ends = {"expert": {"kind": "glu", "d_ff": width}, "shared": {"kind": "glu", "d_ff": shared}}
        layers = [(1, {"kind": "glu", "d_ff": d_ff}), (n_layers - 1, {"kind": "moe", **experts, **ends})]
    return {
        "name": name,
        "vocab_size": vocab,
        "d_model": d_model,
        "norm": "rmsnorm",
        "embedding": {"tied": False},
        "groups": [
            {"n_layers": n, "layer": {"kind": "pre_norm", "attention": attention, "ffn": ffn}}
            for n, ffn in layers
        ],
    }


def on_b200():
    """Megatron-LM on eight B200: distributed optimizer, sequence parallelism, nothing recomputed."""
    for row in table(MEGATRON_B200):
        case = row["case"]
        tp, pp, cp, ep = (number(case, name) for name in ("tp", "pp", "cp", "ep"))
        dp, batches = 8 // (tp * pp * cp), number(case, "mbc")
        zero = int(dp * cp > 1)
        plan = Plan(
            dp=dp, zero=zero, tp=tp, sp=tp > 1, pp=pp, micro_batches=batches ** (pp > 1), ep=ep, cp=cp
        )
        settings = MemorySettings(
            seq_len=number(case, "seq", 4096), grad_accum=batches ** (pp == 1), loss="fused", **IN_FP32
        )
        name = re.sub(r"_l\d.*|_tp.*", "", case)
        yield Step("Megatron-LM, B200", name, of_case(case), settings, plan, B200, _ms(row))


def _ms(row):
    return float(row["measured_step_ms"]) / 1e3


def of_gpt(row):
    """The architecture of a row of Megatron-LM's table: GPT with learned positions."""
    size = {key: int(row[key]) for key in ("n_layers", "d_model", "n_heads", "vocab", "seq_len")}
    layer = {
        "kind": "pre_norm",
        "attention": {"kind": "mha", "n_heads": size["n_heads"], "bias": True},
        "ffn": {"kind": "mlp", "activation": "gelu", "d_ff": 4 * size["d_model"], "bias": True},
    }
    return {
        "name": row["model"],
        "vocab_size": size["vocab"],
        "d_model": size["d_model"],
        "max_seq_len": size["seq_len"],
        "norm": {"kind": "layernorm", "eps": 1e-5},
        "embedding": {"tied": True, "position": {"kind": "learned"}},
        "groups": [{"n_layers": size["n_layers"], "layer": layer}],
    }


def on_a100():
    """Megatron-LM on A100: sequence parallelism, selective recomputation; seconds by its README's MFU."""
    for row in table(MEGATRON_A100):
        model = of_gpt(row)
        tp, pp, devices, batch, micro = (
            int(row[key]) for key in ("tp", "pp", "n_devices", "global_batch", "micro_batch")
        )
        batches = batch // micro
        plan = Plan(tp=tp, sp=True, pp=pp, micro_batches=batches ** (pp > 1))
        settings = MemorySettings(
            batch_size=micro,
            seq_len=int(row["seq_len"]),
            grad_accum=batches ** (pp == 1),
            recompute="attention",
            **IN_FP32,
        )
        # all pairs of tokens, as Megatron-LM counts them
        flops, _ = count_pass(load(model), Request("train", 1, settings.seq_len)).flops()
        flops += _masked(row)
        seconds = batch * flops / (devices * rates(A100).peak("bf16") * float(row["mfu_percent"]) / 100)
        yield Step("Megatron-LM, A100", row["model"], model, settings, plan, A100, seconds)


def _masked(row):
    """FLOPs of pairs above the diagonal in training one sequence: s (s - 1) / 2 pairs, 12 d each a layer."""
    n, d, s = (int(row[key]) for key in ("n_layers", "d_model", "seq_len"))
    return 12 * d * n * s * (s - 1) // 2


def on_h100():
    """torchtitan in bf16 on the H100 of 2.4 TB/s; of selective checkpointing what it repeats."""
    for row in table(TORCHTITAN):
        if "float8" in row["extra"]:
            continue
        dp, tp = number(row["plan"], "fsdp"), number(row["plan"], "tp")
        batch, seq_len = int(row["local_batch"]), int(row["seq_len"])
        recompute = "layer" if row["activation_checkpointing"] == "full" else SELECTIVE
        settings = MemorySettings(batch_size=batch, seq_len=seq_len, recompute=recompute, gradients="fp32")
        seconds = dp * batch * seq_len / (float(row["tokens_per_s_per_gpu"]) * int(row["n_devices"]))
        plan, compiled = Plan(dp=dp, zero=3, tp=tp, sp=tp > 1), "compile" in row["extra"]
        model = row["model"]
        yield Step("torchtitan, H100", model, model, settings, plan, "h100-sxm-96gb", seconds, compiled)


class Predicted(NamedTuple):
    """A step by what it is made of, before constants of steps: its floor, parts, and communication."""

    floor: float
    parts: tuple[float, float, float, float]
    sent: float


KIND = {PRODUCTS: 0, ATTENTION: 2}
UNFITTED = dict.fromkeys(("matrix_products", "memory_bound", "attention", "communication"), 1.0)


def predicted(step, chip):
    """The parts of a step on a device whose products and links have the constants of a chip."""
    links = load_datasheet(chip).efficiency["communication"]
    origin = {"error": 0, "low": 1, "high": 1, "rows": 0, "table": "", "fitted": ""}
    known = {**steps.products_of(chip), "communication": links, "training": {"bf16": {**UNFITTED, **origin}}}
    figures = load_datasheet(step.device).figures
    keys = ("link_gb_s", "network_gb_s")
    per_node = figures.get("devices_per_node")
    fabric = Fabric(
        step.device, *(figures[key].value for key in keys), *([int(per_node.value)] if per_node else [])
    )
    device = TimingDevice(KernelClock(rates(step.device), Efficiency(known)), fabric)
    found = predict_pass(load(step.model), step.settings, device, step.plan, compiled=step.compiled)
    parts = [0.0, 0.0, 0.0, 0.0]
    for row in found.rows:
        # a pipeline that fills and drains repeats all but the update
        waits = 1.0 if row.stage == "update" else 1 + step.plan.waited / step.plan.micro_batches
        parts[KIND.get(kind_of(row.op_class, row.kernel), 1)] += waits * row.seconds.expected
    of_replicas = [one for one in found.communication if one.timed.collective.purpose in OF_REPLICAS]
    parts[3] = sum(one.least_s for one in of_replicas)
    sent = sum(one.least_s for one in found.communication) - parts[3]
    return Predicted(found.seconds.floor, tuple(parts), sent)


class FrameworkSteps:
    """Measured steps of a framework: parts, seconds and models as folds."""

    def __init__(self, known, chip):
        self.steps = list(known)
        found = [predicted(step, chip) for step in self.steps]
        self.floor = np.array([one.floor for one in found])
        self.parts = np.array([one.parts for one in found])
        self.sent = np.array([one.sent for one in found])
        self.measured = np.array([step.seconds for step in self.steps])
        self.fold = np.array([step.fold for step in self.steps])

    def expected(self, numbers, rows=slice(None)):
        """Expected seconds of some rows, by the logarithms of the four constants."""
        return self.parts[rows] @ np.exp(-np.asarray(numbers)) + self.sent[rows]


FRAMEWORKS = {
    "Megatron-LM, A100": (on_a100, A100),
    "torchtitan, H100": (on_h100, H100),
    "Megatron-LM, B200": (on_b200, B200),
}


@cache
def steps_of(framework):
    """The steps of a framework."""
    rows, chip = FRAMEWORKS[framework]
    return FrameworkSteps(rows(), chip)


@cache
def fitted_b200():
    """The fit of Megatron-LM's steps on B200; what replicas send has the constant of H100."""
    of = steps_of("Megatron-LM, B200")
    communication = steps.fitted(H100).numbers[3]

    def seconds(numbers, rows):
        return of.expected([*numbers, communication], rows)

    return fit(seconds, of.measured, of.fold, steps.START[:3]), communication


@cache
def ratios():
    """Measured over expected, by framework: by constants that were fitted on other rows."""
    found = {FOUNDRY: np.concatenate([steps.fitted(device).ratios for device in steps.MEASURED])}
    for name, device in (("Megatron-LM, A100", A100), ("torchtitan, H100", H100)):
        of = steps_of(name)
        found[name] = of.measured / of.expected(steps.fitted(device).numbers)
    found["Megatron-LM, B200"] = fitted_b200()[0].ratios
    return {**found, **{name: measured for name, (measured, _) in trainers().items()}}


def range_of(known):
    """The lowest 10% and the highest 90% quantile of any framework: one more framework may be as far off."""
    ends = [np.quantile(rows, OUTER) for rows in known.values()]
    return float(min(low for low, _ in ends)), float(max(high for _, high in ends))


def without(name):
    """The range of the other frameworks."""
    return range_of({other: rows for other, rows in ratios().items() if other != name})


class HeldOut(NamedTuple):
    """A framework's rows: their number, mean error, and the part in the range of the other frameworks."""

    framework: str
    rows: int
    error: float
    within: float
    floor: float


def of_name(name):
    """The steps of a framework; of llm-foundry on each device."""
    return [steps_of(name)] if name in FRAMEWORKS else [steps.steps_of(one) for one in steps.MEASURED]


def held_out():
    """Each framework beside the range of the others; floor: the largest floor / measured of its rows."""
    for name, own in ratios().items():
        low, high = without(name)
        newer = trainers().get(name)
        floors = [one.floor / one.measured for one in of_name(name)] if newer is None else newer[1:]
        floor = max(float(each.max()) for each in floors)
        yield HeldOut(name, len(own), mean_error(own), float(np.mean((low <= own) & (own <= high))), floor)


def entries(date, wanted):
    """(device, dtype, entry of the YAML, fit) of each device, with the range of all frameworks."""
    low, high = (rounded(end, 3) for end in range_of(ratios()))
    fits = list(steps.entries(date, wanted))
    if wanted(B200):
        of, communication = fitted_b200()
        shares = [rounded(share) for share in np.exp([*of.numbers, communication])]
        entry = dict(zip(StepConstants._fields, shares, strict=False))
        fits.append((B200, "bf16", {**entry, **of.origin(MEGATRON_B200, date)}, of))
    for device, dtype, entry, of in fits:
        best = attention_best(device)
        shares = {key: entry[key] for key in StepConstants._fields if key in entry}
        yield device, dtype, {**shares, "attention_best": best, **entry, "low": low, "high": high}, of
