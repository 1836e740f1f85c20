"""What is fitted: operations of engines, the rows that measure them, and the constants that kernels state."""

from dataclasses import dataclass, field

import numpy as np

from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.predict.engine_kernels import attention, delta_net, exchange, experts, latent
from archcli.wings.serving.predict.engine_kernels.choice import PROCESSORS
from archcli.wings.serving.predict.engine_kernels.terms import KernelDevice
from engine_fits.loads import experts_and_rows

LIKE = {"gb300": "gb200"}
"""Devices without a datasheet of ours, and the one whose peaks are theirs."""
PEAKS = {"bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4"}
PEAKS |= {"int4_wo": "bf16", "w4a16_mxfp4": "bf16", "w4a8_mxfp4_mxfp8": "fp8"}
"""The peak of a dtype's products; weights of 4 bits alone are multiplied as bf16."""
WEIGHT_BYTES = {"bf16": 2, "fp8": 1, "fp8_block": 1, "int4_wo": 0.53125, "nvfp4": 0.5625}
WEIGHT_BYTES |= {"w4a16_mxfp4": 0.53125, "w4a8_mxfp4_mxfp8": 0.53125}
"""Bytes of a weight with its scales: one of 16 bits for 64, of 8 for 16, of 8 for 32."""
TERA, GIGA, MEGA = 1e12, 1e9, 1e6

START = {
    "call_us": (10, 1.0),
    "compute": (0.5, 1.2),
    "tile": (64, 0.0),
    "block": (0.8, 0.7),
    "start": (50, 1.0),
    "memory": (0.7, 0.7),
    "cached": (1.5, 1.0),
    "narrow": (1.3, 0.5),
    "wide": (1.1, 0.3),
    "window": (1.1, 0.3),
    "masked": (0.02, 3.0),
    "cache_passes": (1.5, 0.7),
    "least": (64, 0.0),
    "wave_us": (1, 1.2),
    "window_us": (3, 1.5),
    "queries": (1, 1.0),
    "chunk": (256, 0.7),
    "splits": (32, 1.5),
    "activations": (0.3, 0.7),
    "expert_us": (0.05, 1.5),
    "foreign": (0.1, 2.5),
    "hop_us": (0.3, 1.5),
    "one_shot": (0.5, 1.0),
    "two_shot": (0.7, 0.7),
    "start_us": (8, 1.0),
    "far": (1.1, 1.5),
    "crowd": (0.1, 1.5),
    "step_us": (1, 1.0),
    "token_us": (0.1, 1.5),
    "state": (0.7, 0.7),
    "sequence_us": (0.1, 2.0),
    "head_us": (0.05, 2.0),
    "keep": (0.9, 0.5),
    "keys": (1, 1.0),
}
"""Where a constant starts, and how many powers of e it may well be off; 0 for one that is not fitted."""
BOUNDS = {"window": (1, 10), "masked": (0, 1), "foreign": (0, 1), "far": (1, 100)}
"""What constants mean nothing beyond: a longer prompt or a larger group is never faster."""


@dataclass(frozen=True)
class Kind:
    """An operation in a phase: its rows, its constants and its function.

    `shape` names the columns of what is held out together, `states` the constants that a kernel states (of
    "" where none is named), `fixed` the values of those that are chosen for a kernel and not fitted.
    """

    name: str
    op: str
    phase: str
    tables: tuple
    constants: type
    seconds: object
    call: object
    shape: tuple
    states: dict
    fixed: dict = field(default_factory=dict)
    start: dict = field(default_factory=dict)
    where: object = None

    def rows_of(self, rows):
        """Which rows of a table are of this kind."""
        size = len(rows["time_us"])
        return np.ones(size, dtype=bool) if self.where is None else self.where(rows)

    def stated(self, kernel, engine="", device=""):
        """The constants that a kernel states, and those that are fixed for it, its engine or its device."""
        names = self.states.get(kernel, self.states[""]).split()
        fixed = [self.fixed.get(key, {}) for key in ("", kernel, engine, f"{engine} {device}")]
        return names, {name: value for part in fixed for name, value in part.items()}


def device_of(name, dtype):
    """A device as a kernel of a dtype sees it."""
    figures = load_datasheet(LIKE.get(name, name)).figures
    peak = PEAKS[dtype]
    key = next(key for key in (f"{peak}_tflops", "fp8_tflops", "bf16_tflops") if key in figures)
    values = {name: figure.value for name, figure in figures.items()}
    return KernelDevice(
        values[key] * TERA,
        values["bandwidth_gb_s"] * GIGA,
        values["l2_mb"] * MEGA,
        PROCESSORS[LIKE.get(name, name)],
        values.get("link_gb_s", 0) * GIGA,
    )


def _cache_bytes(rows):
    return np.where(rows["cache_dtype"] == "fp8", 1, 2)


def _heads_call(rows):
    names = ("heads", "kv_heads", "head_dim", "window", "batch", "length")
    return attention.HeadsCall(*(rows[name] for name in names), _cache_bytes(rows))


def _latent_call(rows):
    return latent.LatentCall(rows["heads"], rows["batch"], rows["length"], _cache_bytes(rows))


def _product_call(rows):
    is_pre = rows["step"] == "pre"
    read, written = np.where(is_pre, 128, 512), np.where(is_pre, 512, 128)
    return latent.LatentProductCall(
        rows["heads"], rows["tokens"], read, written, np.where(rows["dtype"] == "fp8", 1, 2)
    )


def _experts_call(rows):
    touched, per_rank = experts_and_rows(rows)
    weight = np.array([WEIGHT_BYTES[dtype] for dtype in rows["dtype"]])
    return experts.ExpertsCall(
        rows["hidden"],
        rows["inter"] / rows["tp"],
        2 + rows["gated"],
        touched,
        per_rank,
        rows["tokens"] * rows["topk"],
        weight,
    )


def _exchange_call(rows):
    return exchange.ExchangeCall(rows["ranks"], rows["bytes"])


def _delta_call(rows):
    return delta_net.DeltaCall(rows["k_heads"], rows["v_heads"], rows["batch"], rows["length"])


def _is_delta(phase, *, convolution):
    def test(rows):
        is_convolution = np.char.find(rows["kernel"], "conv") >= 0
        return (rows["phase"] == phase) & (is_convolution == convolution)

    return test


HEADS = ("heads", "kv_heads", "head_dim")
SEQUENCES = ("batch", "length")
OF_EXPERTS = ("hidden", "inter", "topk", "experts")
LAUNCHED_BY_VLLM = {name: {"overlapped": True} for name in ("flash_attn_mla", "flashmla", "triton_mla")}
"""Its rows hold 100 to 300 us of launches by the host, while the device works."""
NARROW = {"trtllm": {"narrow": True}, "sglang a100-sxm-80gb": {"narrow": True}}
"""Convolutions that are narrower than queries, keys and values together."""
ALL_WIDTHS = "call_us compute tile block memory narrow wide window"

KINDS = (
    Kind(
        "attention_prefill",
        "attention",
        "prefill",
        ("attention_context", "attention_context_fp8"),
        attention.PrefillConstants,
        attention.prefill_seconds,
        _heads_call,
        HEADS,
        {
            "": ALL_WIDTHS,
            "fa3": "call_us compute tile start memory narrow wide cache_passes",
            "flash_attention": "call_us compute tile block start memory cached cache_passes",
            "flash_attn": "call_us compute tile block start memory cached cache_passes",
            "flash_attn_fa2": "call_us compute tile start memory cached narrow cache_passes",
            "flash_attn_fa3": "call_us compute tile block start narrow wide cache_passes",
            "flash_attn_fa4": "call_us compute tile block start memory wide cache_passes",
            "flashinfer": "call_us compute tile block memory cached wide cache_passes",
            "flashinfer_fiprefill": "call_us compute tile block memory cached narrow cache_passes",
            "flashinfer_trtllmprefill": "call_us compute tile block start narrow wide cache_passes",
            "torch_flow": "call_us compute tile start cached narrow window cache_passes",
            "torch_flow_flashinfer": "call_us compute tile block start memory cached wide",
            "triton": "call_us compute tile block memory narrow window masked",
            "triton_attn": "call_us compute tile block memory cached wide cache_passes",
        },
        {
            "": {"tile": 64},
            "trtllm_mha": {"tile": 128},
            "torch_flow": {"tile": 128},
            "flashinfer_trtllmprefill": {"tile": 128},
        },
    ),
    Kind(
        "attention_decode",
        "attention",
        "decode",
        ("attention_decode", "attention_decode_fp8"),
        attention.DecodeConstants,
        attention.decode_seconds,
        _heads_call,
        HEADS,
        {
            "": "call_us memory wave_us block cached queries splits window_us",
            "fa3": "call_us memory wave_us block cached chunk splits window_us",
            "flash_attention": "call_us memory least wave_us block cached queries chunk",
            "flash_attn": "call_us memory least block cached queries chunk splits",
            "flash_attn_fa2": "call_us memory least block narrow wide chunk splits",
            "flash_attn_fa3": "call_us memory wave_us block cached chunk splits window_us",
            "flashinfer": "call_us memory least wave_us block cached masked queries",
            "flashinfer_fidecode": "call_us memory least wave_us block cached compute queries",
            "flashinfer_trtllmdecode": "call_us memory least wave_us block compute chunk splits",
            "torch_flow_flashinfer": "call_us memory least wave_us block wide chunk splits",
            "triton": "call_us memory least wave_us cached masked chunk splits",
            "triton_attn": "call_us memory least wave_us block cached masked splits",
            "trtllm_mha": "call_us memory least wave_us compute wide chunk splits",
        },
        {
            "": {"least": 64},
            "trtllm_mha": {"least": 128},
            "flashinfer_trtllmdecode": {"least": 128},
            "torch_flow_flashinfer": {"least": 128},
            "flash_attn": {"apart": True},
            "flash_attn_fa2": {"apart": True, "least": 128},
        },
    ),
    Kind(
        "latent_prefill",
        "latent",
        "prefill",
        ("mla_context",),
        latent.LatentPrefillConstants,
        latent.latent_prefill_seconds,
        _latent_call,
        SEQUENCES,
        {"": "call_us compute tile block start memory cached"},
        {
            "": {"tile": 64},
            "trtllm_mla": {"tile": 128},
            "flash_attention": {"absorbed": True},
            "triton": {"absorbed": True},
            **LAUNCHED_BY_VLLM,
        },
    ),
    Kind(
        "latent_decode",
        "latent",
        "decode",
        ("mla_decode",),
        latent.LatentDecodeConstants,
        latent.latent_decode_seconds,
        _latent_call,
        SEQUENCES,
        {"": "call_us memory wave_us block compute queries chunk splits"},
        LAUNCHED_BY_VLLM,
    ),
    Kind(
        "latent_product",
        "latent_product",
        "",
        ("mla_bmm",),
        latent.LatentProductConstants,
        latent.latent_product_seconds,
        _product_call,
        ("heads", "tokens"),
        {"": "call_us compute memory cached"},
    ),
    Kind(
        "experts",
        "experts",
        "",
        ("experts", "experts_fp8", "experts_4bit"),
        experts.ExpertsConstants,
        experts.experts_seconds,
        _experts_call,
        OF_EXPERTS,
        {"": "call_us memory compute tile activations cached expert_us foreign"},
        {"": {"tile": 32}},
        {"call_us": 30, "memory": 0.8, "compute": 0.6, "cached": 1.1, "expert_us": 0.08, "foreign": 0.2},
    ),
    *(
        Kind(
            f"collective_{where}",
            "all_reduce",
            where,
            ("allreduce_engine",),
            exchange.ExchangeConstants,
            exchange.exchange_seconds,
            _exchange_call,
            ("ranks", "bytes"),
            {"": "call_us hop_us one_shot two_shot start_us far crowd"},
            {},
            {"call_us": call},
            lambda rows, graph=graph: rows["graph"] == graph,
        )
        for where, graph, call in (("graph", 1, 4), ("host", 0, 20))
    ),
    *(
        Kind(
            f"{op}_prefill",
            op,
            "prefill",
            ("delta_net",),
            delta_net.DeltaConstants,
            seconds,
            _delta_call,
            ("k_heads", "v_heads"),
            {"": "call_us memory cached chunk step_us token_us state sequence_us"},
            {"": {"chunk": chunk}, **(NARROW if op == "convolution" else {})},
            {},
            _is_delta("prefill", convolution=op == "convolution"),
        )
        for op, seconds, chunk in (
            ("convolution", delta_net.convolution_prefill_seconds, 256),
            ("recurrence", delta_net.recurrence_prefill_seconds, 64),
        )
    ),
    *(
        Kind(
            f"{op}_decode",
            op,
            "decode",
            ("delta_net",),
            delta_net.DeltaConstants,
            seconds,
            _delta_call,
            ("k_heads", "v_heads"),
            {"": "call_us memory cached head_us keep sequence_us"},
            NARROW if op == "convolution" else {},
            {"call_us": 3, "cached": 3},
            _is_delta("decode", convolution=op == "convolution"),
        )
        for op, seconds in (
            ("convolution", delta_net.convolution_decode_seconds),
            ("recurrence", delta_net.recurrence_decode_seconds),
        )
    ),
)
