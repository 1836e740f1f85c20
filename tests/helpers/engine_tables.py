"""Tables of docs/engines.md that are made from engines/*.yaml: errors, and a call of each operation."""

from archcli.arith import touched
from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.devices.engines import load_kernels, load_speeds, measured_engines
from archcli.wings.serving.predict.engine_kernels import attention, delta_net, exchange, experts, latent
from archcli.wings.serving.predict.engine_kernels.choice import PROCESSORS, entry_for
from archcli.wings.serving.predict.engine_kernels.terms import KernelDevice

RIGHT = "---:"
HEADS = "32 query heads, 8 key heads of 128"
EXAMPLES = (
    (
        "attention_prefill",
        "vllm",
        f"{HEADS}, 2 prompts of 4,096",
        attention.PrefillConstants,
        attention.prefill_seconds,
        attention.HeadsCall(32, 8, 128, 0, 2, 4096),
    ),
    (
        "attention_decode",
        "sglang",
        f"{HEADS}, 64 caches of 4,096",
        attention.DecodeConstants,
        attention.decode_seconds,
        attention.HeadsCall(32, 8, 128, 0, 64, 4096),
    ),
    (
        "latent_prefill",
        "trtllm",
        "16 heads, 2 prompts of 4,096",
        latent.LatentPrefillConstants,
        latent.latent_prefill_seconds,
        latent.LatentCall(16, 2, 4096),
    ),
    (
        "latent_decode",
        "trtllm",
        "16 heads, 64 caches of 4,096",
        latent.LatentDecodeConstants,
        latent.latent_decode_seconds,
        latent.LatentCall(16, 64, 4096),
    ),
    (
        "latent_product",
        "sglang",
        "16 heads, 64 tokens, 512 to 128",
        latent.LatentProductConstants,
        latent.latent_product_seconds,
        latent.LatentProductCall(16, 64, 512, 128),
    ),
    (
        "experts",
        "vllm",
        "64 tokens choose 8 of 128 experts of 768 in 2,048",
        experts.ExpertsConstants,
        experts.experts_seconds,
        experts.ExpertsCall(2048, 768, 3, touched(128, 8, 64), 64 * 8, 64 * 8),
    ),
    (
        "collective_graph",
        "trtllm",
        "all-reduce of 1 MiB among 8",
        exchange.ExchangeConstants,
        exchange.exchange_seconds,
        exchange.ExchangeCall(8, 1 << 20),
    ),
    (
        "recurrence_prefill",
        "sglang",
        "16 key heads, 32 value heads, 2 prompts of 4,096",
        delta_net.DeltaConstants,
        delta_net.recurrence_prefill_seconds,
        delta_net.DeltaCall(16, 32, 2, 4096),
    ),
    (
        "recurrence_decode",
        "vllm",
        "16 key heads, 32 value heads, 64 sequences",
        delta_net.DeltaConstants,
        delta_net.recurrence_decode_seconds,
        delta_net.DeltaCall(16, 32, 64),
    ),
    (
        "convolution_decode",
        "vllm",
        "16 key heads, 32 value heads, 64 sequences",
        delta_net.DeltaConstants,
        delta_net.convolution_decode_seconds,
        delta_net.DeltaCall(16, 32, 64),
    ),
)


def h100():
    """An H100 as a kernel in bf16 sees it."""
    figures = {name: figure.value for name, figure in load_datasheet("h100-sxm").figures.items()}
    rates = figures["bf16_tflops"] * 1e12, figures["bandwidth_gb_s"] * 1e9, figures["l2_mb"] * 1e6
    return KernelDevice(*rates, PROCESSORS["h100-sxm"], figures["link_gb_s"] * 1e9)


def table(columns, rows, *, texts=1):
    """A Markdown table whose first `texts` columns are aligned to the left."""
    sides = ["---" if number < texts else RIGHT for number in range(len(columns))]
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (columns, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(sides)}|", *lines[1:]])


def engine_examples_table():
    """One call of each operation on H100, in bf16: expected time and range."""
    rows = []
    for operation, engine, words, constants, seconds, call in EXAMPLES:
        entries = load_kernels(engine)["h100-sxm"][operation]
        entry = entry_for(
            entries, {"dtype": "bf16", "cache": "bf16"} if "cache" in entries[0] else {"dtype": "bf16"}
        )
        known = constants(**{name: entry[name] for name in constants._fields if name in entry})
        time = 1e6 * seconds(known, call, h100())
        shown = [f"{figure:.4g}" for figure in (time, entry["low"] * time, entry["high"] * time)]
        rows.append([operation.replace("_", " "), engine, f"`{entry['kernel']}`", words, *shown])
    return table(["operation", "engine", "kernel", "call", "µs", "low", "high"], rows, texts=4)


def engine_errors_table():
    """Errors of engines' kernels on held-out shapes, by operation and engine."""
    cells = {}
    for engine in measured_engines():
        for device, operations in load_kernels(engine).items():
            for operation, entries in operations.items():
                pairs = [(entry["error"], entry["rows"]) for entry in entries]
                cells.setdefault((operation, engine), {})[device] = pairs
    rows = []
    for (operation, engine), devices_of in sorted(cells.items()):
        means = {device: weighted(pairs) for device, pairs in devices_of.items()}
        every = [pair for pairs in devices_of.values() for pair in pairs]
        worst = max(means, key=means.get)
        shown = [f"{weighted(every):.1%}", sum(count for _, count in every), f"`{worst}`"]
        rows.append([operation.replace("_", " "), engine, *shown, f"{means[worst]:.1%}"])
    return table(["operation", "engine", "error", "rows", "worst", "its error"], rows, texts=2)


def weighted(pairs):
    """The mean of errors, each with the weight of its rows."""
    return sum(error * rows for error, rows in pairs) / sum(rows for _, rows in pairs)


def whole_runs_table():
    """Constants of engines of whole runs by family of devices, and the ranges by kind."""
    constants, kinds = [], []
    for engine in ("llamacpp", "mlx"):
        for family, speed in load_speeds(engine)["speeds"].items():
            numbers = [speed[key] for key in ("launch_us", "memory", "attention", "experts")]
            numbers += [speed[phase][form] for phase in PHASES for form in ("quantized", "plain")]
            constants.append([engine, family, *numbers])
            for kind, ends in speed["kinds"].items():
                known = [ends[key] for key in ("rows", "devices")]
                known += [f"{ends['error']:.1%}", ends.get("slower", 1.0), ends["low"], ends["high"]]
                near = [ends.get("near_low", ""), ends.get("near_high", "")]
                kinds.append([engine, family, kind, *known, *near])
    of_phases = [f"{phase}, {form}" for phase in PHASES for form in ("quantized", "plain")]
    heads = ["engine", "devices", "launch_us", "memory", "attention", "experts", *of_phases]
    ends = ["rows", "devices", "error", "slower", "low", "high", "near_low", "near_high"]
    return (
        f"{table(heads, constants, texts=2)}\n\n{table(['engine', 'devices', 'kind', *ends], kinds, texts=3)}"
    )


PHASES = ("generation", "prompt")
GENERATORS = {
    "whole_runs": whole_runs_table,
    "engine_errors": engine_errors_table,
    "engine_examples": engine_examples_table,
}
