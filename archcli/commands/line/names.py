"""The names of the subcommands, by group, and hints for mistyped names and options."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from archcli.errors import ArchError, closest, either
from archcli.plugins import offers, optional
from archcli.units import parse_count

# A subcommand is the function `run` of archcli/commands/NAME.py, or what a wing offers. The first line of its
# docstring stands here or in wing.json too (a test compares them), so that the list of subcommands is printed
# without importing any.
GROUPS = {
    "Ask": ("fit", "choose"),
    "Count": ("params", "flops", "kvcache", "memory", "predict", "compare"),
    "Design": ("sweep", "scale", "export"),
    "Judge": ("check", "rules", "rule"),
    "Measure": ("profile", "plot", "verify", "bench"),
    "Draw": ("draw", "report"),
    "Serve": ("mcp",),
    "Look": (
        "list",
        "survey",
        "show",
        "summary",
        "explain",
        "families",
        "devices",
        "engines",
        "trainers",
        "schema",
    ),
}
"""The subcommands by group, in the order of the list; also those of wings that are not here."""
HELP = {
    "params": "Count parameters: total, active, by group and by path, and bytes.",
    "flops": "Count the FLOPs of a pass by component and by class of operation.",
    "kvcache": "Count the KV cache and states: bytes per token, and what fits.",
    "compare": "Compare architectures: settings, parameters, FLOPs and KV cache.",
    "check": "Check an architecture against design rules, as a linter does.",
    "rules": "List the design rules of archcli check.",
    "rule": "Explain a design rule: what it asks, why, its source, and examples.",
    "list": "List the presets with their size, attention and cache per token.",
    "survey": "Tabulate the design choices of many architectures, with medians.",
    "show": "Show the forward pass, operation by operation, with shapes.",
    "families": "List the Hugging Face model types that are read, wrappers included.",
    "schema": "Print the JSON Schema of the YAML, or of a profile's JSON.",
    **offers("help"),
}
"""The line of each subcommand that is here."""
COMMANDS = {name: group for group, names in GROUPS.items() for name in names if name in HELP}
GONE = {name for names in GROUPS.values() for name in names}.difference(HELP)
"""Subcommands of wings that are not here."""


def place_of(name: str) -> str:
    """The place of a subcommand's function: archcli.commands.params:run."""
    in_core = "archcli.commands.rules:explain" if name == "rule" else f"archcli.commands.{name}:run"
    return offers("archcli.commands").get(name, in_core)


COMMANDS_MEANT = {
    **dict.fromkeys(("cache", "kv-cache", "kv_cache"), "kvcache"),
    **dict.fromkeys(("vram", "ram"), "memory"),
    **dict.fromkeys(("latency", "speed", "time", "throughput", "tps"), "predict"),
    **dict.fromkeys(("count", "parameters", "size", "numel"), "params"),
    **dict.fromkeys(("macs", "compute"), "flops"),
    **dict.fromkeys(("benchmark",), "profile"),
    **dict.fromkeys(("ls", "models", "presets"), "list"),
    **dict.fromkeys(("config", "cat", "print", "info"), "show"),
    **dict.fromkeys(("gpu", "gpus", "hardware"), "devices"),
    **dict.fromkeys(("engine", "servers", "runtimes"), "engines"),
    **dict.fromkeys(("trainer", "finetune", "frameworks"), "trainers"),
    **dict.fromkeys(("formula", "derive"), "explain"),
    **dict.fromkeys(("fits", "run"), "fit"),
    **dict.fromkeys(("search", "grid"), "sweep"),
    **dict.fromkeys(("diagram", "picture", "visualize", "visualise", "svg", "graph"), "draw"),
    **dict.fromkeys(("recommend", "buy", "rent", "price", "cost"), "choose"),
    "lint": "check",
    "diff": "compare",
}
"""Subcommands by other names for what they do."""

LENGTH, SIZES = ("--context", "--seq-len"), ("--memory", "--device")
OPTIONS_MEANT = {
    **dict.fromkeys(
        ("--gpu", "--gpus", "--num-gpus", "--n-gpus", "--gpu-count", "--accelerator", "--hardware", "--card"),
        ("--device",),
    ),
    **dict.fromkeys(("--vram", "--ram", "--budget", "--gpu-memory", "--mem", "--size"), SIZES),
    **dict.fromkeys(
        ("--ctx", "--ctx-size", "--ctx-len", "--n-ctx", "--num-ctx", "--context-length", "--context-size"),
        LENGTH,
    ),
    **dict.fromkeys(("--max-model-len", "--max-len", "--max-context", "--context", "-c"), LENGTH),
    **dict.fromkeys(
        (
            "--seq",
            "--length",
            "--max-seq-len",
            "--max-seq-length",
            "--sequence-length",
            "--tokens",
            "-l",
            "-s",
        ),
        ("--seq-len", "--context"),
    ),
    **dict.fromkeys(("--max-tokens", "--max-new-tokens", "--n-predict", "--output-len", "-n"), ("--new",)),
    **dict.fromkeys(
        ("--bs", "--bsz", "--batch", "--max-num-seqs", "--parallel", "--concurrency"), ("--batch-size",)
    ),
    **dict.fromkeys(("--micro-batch-size", "--per-device-train-batch-size", "--users"), ("--batch-size",)),
    **dict.fromkeys(
        (
            "--precision",
            "--quant",
            "--quantization",
            "--quantize",
            "--type",
            "--format-weights",
            "--torch-dtype",
        ),
        ("--dtype",),
    ),
    **dict.fromkeys(
        (
            "--kv-cache-dtype",
            "--cache-type-k",
            "--cache-type-v",
            "--kv-quant",
            "--cache-type",
            "--cache-dtype",
        ),
        ("--kv-dtype",),
    ),
    **dict.fromkeys(("-ctk", "-ctv"), ("--kv-dtype",)),
    **dict.fromkeys(
        ("--tensor-parallel", "--tensor-parallel-size", "--tensor-split", "--tp-size"), ("--tp",)
    ),
    **dict.fromkeys(("--pipeline-parallel", "--pipeline-parallel-size", "--pp-size"), ("--pp",)),
    **dict.fromkeys(("--data-parallel", "--data-parallel-size", "--dp-size"), ("--dp",)),
    **dict.fromkeys(("--expert-parallel", "--expert-parallel-size", "--ep-size"), ("--ep",)),
    **dict.fromkeys(("--context-parallel", "--context-parallel-size", "--cp-size"), ("--cp",)),
    **dict.fromkeys(("--sequence-parallel",), ("--sp",)),
    **dict.fromkeys(("--fsdp", "--zero-stage", "--deepspeed"), ("--zero",)),
    **dict.fromkeys(("--optim",), ("--optimizer",)),
    **dict.fromkeys(("--gradient-accumulation-steps", "--accumulation"), ("--grad-accum",)),
    **dict.fromkeys(
        ("--checkpointing", "--gradient-checkpointing", "--activation-checkpointing"), ("--recompute",)
    ),
    **dict.fromkeys(("--gpu-memory-utilization", "--mem-fraction-static"), ("--utilization",)),
    **dict.fromkeys(("--n-gpu-layers", "--ngl", "--gpu-layers", "--cpu-moe", "--n-cpu-moe"), ("--offload",)),
    **dict.fromkeys(
        ("--cpu-offload", "--cpu-offload-gb", "--override-tensor", "-ngl", "-ot"), ("--offload",)
    ),
    **dict.fromkeys(
        ("--max-num-batched-tokens", "--chunked-prefill-size", "--ubatch-size", "-ub"), ("--chunk",)
    ),
    **dict.fromkeys(("--backend", "--runtime", "--server", "--framework"), ("--engine", "--backend")),
    **dict.fromkeys(("--override", "--config", "--param"), ("--set",)),
    **dict.fromkeys(("--filter", "--query", "--if", "--series", "--grep"), ("--where",)),
    **dict.fromkeys(("--mode", "--stage"), ("--phase",)),
    **dict.fromkeys(("--cost", "--price"), ("--price-per-hour",)),
    **dict.fromkeys(("--out", "--file"), ("--output",)),
}
"""Options by the names that other tools give them; the first that a command has is meant."""


def without_help(args: Sequence[str]) -> list[str]:
    """The words of a command line with `help` and `help COMMAND` as -h has them."""
    return [*args[1:2], "-h"] if [*args[:1]] == ["help"] else [*args]


def near_command(name: str, known: Collection[str]) -> str:
    """A hint for an unknown subcommand: did you mean kvcache? Empty where none is near."""
    if name in GONE:
        return "a part of archcli has it that is not here; install all of archcli"
    meant = COMMANDS_MEANT.get(name.lower())
    return _question([meant] if meant else _near(name, known))


def near_option(name: str, known: Collection[str]) -> str:
    """A hint for an unknown option of a command; empty where no known one is near.

    What other tools call it goes before what is spelled alike: --context is not --recompute.
    """
    lower = name.lower().replace("_", "-")
    if lower in OPTIONS_MEANT:
        return _question([option for option in OPTIONS_MEANT[lower] if option in known][:1])
    # a letter alone is near to nothing: -c is not --cp
    return _question(_near(lower, [option for option in known if option.startswith("--")]))


EXTRA = re.compile(r"unexpected extra argument(?:\(s\)|s)? \((\S+)")
MISSING = re.compile(r"Missing (?:argument|option) '([^']+)'")
EXAMPLES = {
    "MODEL": "llama-3.1-8b",
    "MODULE": "pkg.module:function",
    "--device": "llama-3.1-8b --device rtx-4090",
}
"""What may stand where an argument is missing."""


def usage_hint(message: str, path: str, known: Collection[str], args: Sequence[str] = ()) -> str:
    """A hint for what is wrong with a command line of these options and words, at least its help page."""
    extra, missing = EXTRA.search(message), MISSING.search(message)
    hint = _extra_hint(extra[1].rstrip(")"), known) if extra else ""
    if missing and missing[1] == "--device":
        hints = (_extra_hint(word, ["--device"]) for word in args if not word.startswith("-"))
        hint = next(filter(None, hints), "")
    if missing and missing[1] in EXAMPLES and not hint:
        hint = f"such as {path} {EXAMPLES[missing[1]]}; "
        return f"{hint}{path} -h describes the arguments"
    return hint or f"{path} -h describes the arguments"


def _extra_hint(word: str, known: Collection[str]) -> str:
    """A hint for a surplus argument: `--device h100` for h100; empty where there is none."""
    is_device = optional("serving.is_device", _none)
    readers = {"--device": is_device, "--params": _is_count, "--where": str.isprintable}
    option = next((option for option, reads in readers.items() if option in known and reads(word)), None)
    if option == "--where":
        return f"did you mean --where series={word}?"
    if option is None and _is_count(word):
        option = next((length for length in LENGTH if length in known), None)
    return f"did you mean {option} {word}?" if option else ""


def _none(word: str) -> bool:
    """That a word names no device, where nothing knows devices."""
    return not word


def _is_count(word: str) -> bool:
    try:
        return bool(parse_count(word))
    except ArchError:
        return False


def _near(name: str, known: Collection[str]) -> list[str]:
    """Names that begin so, else those spelled alike."""
    if len(name.strip("-")) < 2:  # noqa: PLR2004
        return []
    return [word for word in known if word.startswith(name.lower())][:3] or closest(name, known)


def _question(names: list[str]) -> str:
    return f"did you mean {either(names)}?" if names else ""
