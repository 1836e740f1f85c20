"""Tables of docs/predict.md that are made from devices/*.yaml and from the code of predictions."""

import archcli
from archcli.load.devices.datasheet import devices, load_datasheet
from archcli.load.devices.efficiency import GROUPS, ORIGIN
from archcli.load.devices.engines import engines as kernel_engines
from archcli.load.devices.engines import load_kernels
from archcli.measure.predict.communication.collective import DEVICES_PER_NODE
from archcli.measure.predict.communication.exchanges import BUCKET_BYTES
from archcli.measure.predict.constants import SMALL_BYTES
from archcli.measure.predict.rank.kernels import LOSS_PASSES, UPDATE_PASSES
from archcli.measure.predict.serving.engines import ENGINES
from archcli.measure.predict.serving.serving import MOST_HALVINGS, OFF_THE_CHORD

RATES = ("bf16_tflops", "fp8_tflops", "bandwidth_gb_s", "link_gb_s", "network_gb_s", "devices_per_node")
RIGHT = "---:"


def table(columns, rows, *, texts=1):
    """A Markdown table whose first `texts` columns are aligned to the left."""
    sides = ["---" if number < texts else RIGHT for number in range(len(columns))]
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (columns, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(sides)}|", *lines[1:]])


def known_sheets():
    """The devices that have constants, by name."""
    sheets = {name: load_datasheet(name) for name in devices()}
    return {name: sheet for name, sheet in sheets.items() if sheet.efficiency}


def constants_table(group):
    """The constants of a group of all devices: what each is, its error and range held out, and its origin."""
    numbers = [*GROUPS[group].numbers]
    rows = [
        [f"`{device}`", name, *(f"{entry[key]:g}" for key in (*numbers, *ORIGIN)), *origin(entry)]
        for device, sheet in known_sheets().items()
        for name, entry in sheet.efficiency.get(group, {}).items()
    ]
    return table(["device", "of", *numbers, *ORIGIN, "table", "measured on", "fitted"], rows, texts=2)


def origin(entry):
    """The table, the device that was measured where it is another, and the day of the fit."""
    lender = entry.get("fitted_on")
    return [f"`{entry['table']}`", f"`{lender}`" if lender else "itself", entry["fitted"]]


def rates_table():
    """The rates on paper that the constants are fractions of."""
    rows = [
        [f"`{device}`", *(figure(sheet, key) for key in RATES), sheet.figures["bf16_tflops"].source]
        for device, sheet in known_sheets().items()
    ]
    return table(["device", *RATES, "source"], rows)


def figure(sheet, key):
    """A figure of a device; empty where none is stated."""
    return f"{sheet.figures[key].value:g}" if key in sheet.figures else ""


def engines_table():
    """The factor of each engine on its speed, with its range and its source."""
    rows = [
        [f"`{name}`", one.source, *(f"{factor:g}" for factor in (one.speed, one.low, one.high))]
        for name, one in ENGINES.items()
    ]
    return table(["`--engine`", "what it is", "expected", "low", "high"], rows, texts=2)


def assumptions_table():
    """Numbers of the code that no measurement gave: where each is from."""
    read, written = LOSS_PASSES
    update_read, update_written = UPDATE_PASSES
    rows = [
        ["bytes of gradients in an all-reduce of DDP", "torch's `bucket_cap_mb`", f"{BUCKET_BYTES:,}"],
        ["devices that a link joins, where its YAML says nothing", "HGX, OAM boards", DEVICES_PER_NODE],
        ["the loss: times that the logits are read", "the least there can be", read],
        ["the loss: times that as many bytes are written", "their gradient", written],
        ["the update: times that as many bytes as weights are read", "AdamW in one kernel", update_read],
        ["the update: times that they are written", "all but the gradient", update_written],
        ["bytes from which all-reduces were fitted", "those of smaller ones scatter", f"{SMALL_BYTES:,}"],
        ["serving: part of a step by which a chord may miss it", "a choice", f"{OFF_THE_CHORD:g}"],
        ["serving: halvings of a span of steps at most", "a choice", MOST_HALVINGS],
    ]
    return table(["number", "why", "value"], rows, texts=2)


def not_modelled_list():
    """What reports say that they leave out, each sentence once."""
    quantized = archcli.load("gpt2", ["quantization.bits=8"])
    reports = [
        archcli.predict("gpt2", "mi300x"),
        archcli.predict("gpt2", "2xh100-sxm", phase="train", plan={"tp": 2}),
        archcli.predict(quantized, "2xh100-sxm", phase="serve", new=1, engine="vllm"),
        archcli.predict("gpt2", "h100-sxm", phase="prefill", engine="trtllm"),
        archcli.predict("gpt2", "16xh100-sxm", phase="train", plan={"dp": 16}),
        archcli.predict("gpt2", "h100-sxm", phase="train", compiled=True),
    ]
    sentences = dict.fromkeys(sentence for report in reports for sentence in report.not_modelled)
    return "\n".join(f"- {sentence}" for sentence in sentences)


def engine_errors_table():
    """Errors of engines' kernels on held-out shapes, by operation and engine."""
    cells = {}
    for engine in kernel_engines():
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


def engine_call_table():
    """One new token of each of 64 sequences in vLLM on H100, worked out by hand."""
    entries = load_kernels("vllm")["h100-sxm"]["attention_decode"]
    [entry] = [one for one in entries if one["kernel"] == "flash_attn_fa3" and one["cache"] == "bf16"]
    size = "64 * 8 * 4096 * 2 * 128 * 2"
    rate = f"(3350e3 * {entry['memory']})"
    spilled = f"({size} - 50e6 + 50e6 / {entry['cached']}) / {rate}"
    chunk = max(min(4096, entry["chunk"]), 4096 / entry["splits"])
    longest = f"{chunk:g} * 2 * 128 * 2 * 132 / {rate}"
    waves = f"{entry['wave_us']} * 64 * 8 / 132"
    lines = {
        "bytes of keys and values": size,
        "µs to read them, 50 MB of them from L2": spilled,
        "µs of the longest chunk on one processor": longest,
        "µs of the waves of blocks": waves,
    }
    found = {what: eval(sum_) for what, sum_ in lines.items()}  # noqa: S307 - arithmetic of this function
    read, chunk_us, wave = [f"{found[what]:.6g}" for what in list(lines)[1:]]
    lines["µs in all"] = f"{entry['call_us']} + {wave} + ({read} ** 2 + {chunk_us} ** 2) ** 0.5"
    found["µs in all"] = eval(lines["µs in all"])  # noqa: S307 - the same
    results = [f"{value:,}" if isinstance(value, int) else f"{value:.6g}" for value in found.values()]
    rows = list(zip(lines, lines.values(), results, strict=True))
    return table(["what", "arithmetic", "result"], rows, texts=2)


GENERATORS = {
    "constants": constants_table,
    "rates": rates_table,
    "engines": engines_table,
    "assumptions": assumptions_table,
    "not_modelled": not_modelled_list,
    "engine_errors": engine_errors_table,
    "engine_call": engine_call_table,
}
