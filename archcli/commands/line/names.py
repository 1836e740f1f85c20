"""The names of the subcommands, by group, and what a name that there is not may mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from archcli.errors import ArchError, closest, either
from archcli.units import parse_count

# A subcommand is the function `run` of archcli/commands/NAME.py; its docstring is its help, and the first
# line of that stands in the list of subcommands.
GROUPS = {
    "Ask": ("fit",),
    "Count": ("params", "flops", "kvcache", "memory", "predict", "compare"),
    "Design": ("sweep", "scale"),
    "Judge": ("check", "rules", "rule"),
    "Measure": ("profile", "plot", "verify"),
    "Draw": ("draw", "report"),
    "Serve": ("mcp",),
    "Look": ("list", "survey", "show", "summary", "explain", "families", "devices", "engines", "schema"),
}
COMMANDS = {name: group for group, names in GROUPS.items() for name in names}

COMMANDS_MEANT = {
    **dict.fromkeys(("cache", "kv-cache", "kv_cache"), "kvcache"),
    **dict.fromkeys(("vram", "ram"), "memory"),
    **dict.fromkeys(("latency", "speed", "time", "throughput", "tps"), "predict"),
    **dict.fromkeys(("count", "parameters", "size", "numel"), "params"),
    **dict.fromkeys(("macs", "compute"), "flops"),
    **dict.fromkeys(("bench", "benchmark"), "profile"),
    **dict.fromkeys(("ls", "models", "presets"), "list"),
    **dict.fromkeys(("config", "cat", "print", "info"), "show"),
    **dict.fromkeys(("gpu", "gpus", "hardware"), "devices"),
    **dict.fromkeys(("engine", "servers", "runtimes"), "engines"),
    **dict.fromkeys(("formula", "derive"), "explain"),
    **dict.fromkeys(("fits", "recommend", "run", "choose"), "fit"),
    **dict.fromkeys(("search", "grid"), "sweep"),
    **dict.fromkeys(("diagram", "picture", "visualize", "visualise", "svg", "graph"), "draw"),
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


def without_help(words: Sequence[str]) -> list[str]:
    """The words of a command line with `help` and `help COMMAND` as -h has them."""
    return [*words[1:2], "-h"] if [*words[:1]] == ["help"] else [*words]


def near_command(name: str, known: Collection[str]) -> str:
    """A hint for an unknown subcommand: did you mean kvcache? Empty where none is near."""
    meant = COMMANDS_MEANT.get(name.lower())
    return _question([meant] if meant else _near(name, known))


def near_option(name: str, known: Collection[str]) -> str:
    """A hint for an option that a command does not have; empty where none is near.

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


def usage_hint(message: str, path: str, known: Collection[str]) -> str:
    """A hint for what is wrong with a command line of these options, at least its help page."""
    extra, missing = EXTRA.search(message), MISSING.search(message)
    hint = _extra_hint(extra[1].rstrip(")"), known) if extra else ""
    if missing and missing[1] in EXAMPLES:
        hint = f"such as {path} {EXAMPLES[missing[1]]}; "
        return f"{hint}{path} -h describes the arguments"
    return hint or f"{path} -h describes the arguments"


def _extra_hint(word: str, known: Collection[str]) -> str:
    """A hint for a word behind the arguments of a command: --device h100 for h100; empty where none is."""
    from archcli.load.devices.budget import is_device  # of words that are left over alone

    readers = {"--device": is_device, "--params": _is_count, "--where": str.isprintable}
    option = next((option for option, reads in readers.items() if option in known and reads(word)), None)
    if option == "--where":
        return f"did you mean --where series={word}?"
    if option is None and _is_count(word):
        option = next((length for length in LENGTH if length in known), None)
    return f"did you mean {option} {word}?" if option else ""


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
