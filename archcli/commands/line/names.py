"""The names of the subcommands, by group, and what a name that there is not may mean."""

from __future__ import annotations

from collections.abc import Collection

from archcli.errors import closest, either

# A subcommand is the function `run` of archcli/commands/NAME.py; its docstring is its help, and the first
# line of that stands in the list of subcommands.
GROUPS = {
    "Ask": ("fit",),
    "Count": ("params", "flops", "kvcache", "memory", "predict", "compare"),
    "Design": ("sweep", "scale"),
    "Judge": ("check", "rules", "rule"),
    "Measure": ("profile", "plot", "verify"),
    "Draw": ("draw", "report"),
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

OPTIONS_MEANT = {
    **dict.fromkeys(("--gpu", "--gpus", "--accelerator", "--hardware", "--card"), ("--device",)),
    **dict.fromkeys(("--vram", "--ram", "--budget", "--gpu-memory"), ("--memory", "--device")),
    **dict.fromkeys(
        ("--ctx", "--ctx-size", "--ctx-len", "--context-length", "--max-model-len", "--max-len"),
        ("--context", "--seq-len"),
    ),
    **dict.fromkeys(("--seq", "--length", "--max-seq-len", "--tokens"), ("--seq-len", "--context")),
    **dict.fromkeys(("--bs", "--bsz", "--batch"), ("--batch-size",)),
    **dict.fromkeys(("--precision", "--quant", "--quantization", "--type"), ("--dtype",)),
    **dict.fromkeys(("--tensor-parallel", "--tensor-parallel-size"), ("--tp",)),
    **dict.fromkeys(("--pipeline-parallel", "--pipeline-parallel-size"), ("--pp",)),
    **dict.fromkeys(("--data-parallel", "--data-parallel-size"), ("--dp",)),
    **dict.fromkeys(("--expert-parallel", "--expert-parallel-size"), ("--ep",)),
    **dict.fromkeys(("--fsdp", "--zero-stage"), ("--zero",)),
    **dict.fromkeys(("--optim",), ("--optimizer",)),
    **dict.fromkeys(
        ("--checkpointing", "--gradient-checkpointing", "--activation-checkpointing"), ("--recompute",)
    ),
    **dict.fromkeys(("--override", "--config", "--param"), ("--set",)),
    **dict.fromkeys(("--filter", "--query", "--if"), ("--where",)),
    **dict.fromkeys(("--mode", "--stage"), ("--phase",)),
    **dict.fromkeys(("--out", "--file"), ("--output",)),
}
"""Options by the names that other tools give them; the first that a command has is meant."""


def near_command(name: str, known: Collection[str]) -> str:
    """A hint for an unknown subcommand: did you mean kvcache? Empty where none is near."""
    meant = COMMANDS_MEANT.get(name.lower())
    return _question([meant] if meant else _near(name, known))


def near_option(name: str, known: Collection[str]) -> str:
    """A hint for an option that a command does not have; empty where none is near."""
    lower = name.lower().replace("_", "-")
    meant = [option for option in OPTIONS_MEANT.get(lower, ()) if option in known][:1]
    return _question(meant or _near(lower, [option for option in known if option.startswith("--")]))


def _near(name: str, known: Collection[str]) -> list[str]:
    """Names that begin so, else those spelled alike."""
    begins = [word for word in known if len(name.strip("-")) > 1 and word.startswith(name.lower())]
    return begins[:3] or closest(name, known)


def _question(names: list[str]) -> str:
    return f"did you mean {either(names)}?" if names else ""
