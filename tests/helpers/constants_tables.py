"""Tables of pages that are made from devices/*.yaml and from the code of predictions."""

import archcli
from archcli.wings.serving.devices.datasheet import devices, load_datasheet
from archcli.wings.serving.devices.efficiency import GROUPS, ORIGIN
from archcli.wings.serving.devices.engines import engines, load_engine
from archcli.wings.serving.predict.communication.collective import DEVICES_PER_NODE
from archcli.wings.serving.predict.communication.exchanges import BUCKET_BYTES
from archcli.wings.serving.predict.constants import SMALL_BYTES
from archcli.wings.serving.predict.rank.kernels import LOSS_PASSES
from archcli.wings.serving.predict.serving import MOST_HALVINGS, OFF_THE_CHORD
from engine_passes import engine_pass_table
from engine_tables import GENERATORS as OF_ENGINES
from engine_tables import table
from published_decode import borrowed_decode_table

RATES = ("bf16_tflops", "fp8_tflops", "bandwidth_gb_s", "link_gb_s", "network_gb_s", "devices_per_node")


def known_sheets():
    """The devices that have constants of their own, by name."""
    sheets = {name: load_datasheet(name) for name in devices()}
    return {name: sheet for name, sheet in sheets.items() if sheet.efficiency and not sheet.same_chip}


def devices_table():
    """The names of all devices, by maker, and the memories of those sold with several."""
    by_vendor = {}
    for name in devices():
        sheet = load_datasheet(name)
        sizes = f" ({', '.join(map(str, sorted(sheet.memory_sizes)))} GB)" if sheet.memory_sizes else ""
        by_vendor.setdefault(sheet.vendor, []).append(f"`{name}`{sizes}")
    return table(
        ["maker", "devices"], [[key, ", ".join(by_vendor[key])] for key in sorted(by_vendor)], texts=2
    )


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
    """The constants of each engine's live servers, and their kinds; of one that nobody measured none."""
    live = {name: engine for name in engines() if "live" in (engine := load_engine(name))}
    rows = [
        [f"`{name}`", *(f"{one['live'][key]:g}" for key in ("speed", "waits", "first_s"))]
        for name, one in live.items()
    ]
    constants = table(["`--engine`", "speed", "waits", "first, s"], rows, texts=1)
    ends = ("slower", "low", "high", "error", "rows", "devices")
    kinds = [
        [f"`{name}`", kind, *(f"{entry[key]:g}" for key in ends)]
        for name, one in live.items()
        for kind, entry in one["kinds"].items()
    ]
    return f"{constants}\n\n{table(['`--engine`', 'kind', *ends], kinds, texts=2)}"


def assumptions_table():
    """Numbers of the code that no measurement gave: where each is from."""
    read, written = LOSS_PASSES
    rows = [
        ["bytes of gradients in an all-reduce of DDP", "torch's `bucket_cap_mb`", f"{BUCKET_BYTES:,}"],
        ["devices that a link joins, where its YAML says nothing", "HGX, OAM boards", DEVICES_PER_NODE],
        ["the loss: times that the logits are read", "the least there can be", read],
        ["the loss: times that as many bytes are written", "their gradient", written],
        ["the update: times that gradients, states and weights are read", "in one kernel", 1],
        ["the update: times that states and weights are written", "in one kernel", 1],
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


GENERATORS = {
    "devices": devices_table,
    "constants": constants_table,
    "rates": rates_table,
    "engines": engines_table,
    "assumptions": assumptions_table,
    "not_modelled": not_modelled_list,
    "engine_pass": engine_pass_table,
    "borrowed_decode": borrowed_decode_table,
    **OF_ENGINES,
}
