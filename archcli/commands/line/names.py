"""The names of the subcommands, by group, and what a name that there is not may mean."""

from __future__ import annotations

from collections.abc import Collection

from archcli.errors import closest, either

# A subcommand is the function `run` of archcli/commands/NAME.py. The first line of its docstring stands here
# too (a test compares them), so that the list of subcommands is printed without importing any.
GROUPS = {
    "Ask": {"fit": "Say whether a model fits a device, in which format, and how fast."},
    "Count": {
        "params": "Count parameters: total, active, by group and by path, and bytes.",
        "flops": "Count the FLOPs of a pass by component and by class of operation.",
        "kvcache": "Count the KV cache and states: bytes per token, and what fits.",
        "memory": "Count the memory of training or inference, and say what fits.",
        "predict": "Predict how long it takes on a GPU you do not have.",
        "compare": "Compare architectures: settings, parameters, FLOPs and KV cache.",
    },
    "Design": {
        "sweep": "Find the shapes of an architecture that meet conditions.",
        "scale": "Scale a family to another size: a good shape, and its training.",
    },
    "Judge": {
        "check": "Check an architecture against design rules, as a linter does.",
        "rules": "List the design rules of archcli check.",
        "rule": "Explain a design rule: what it asks, why, its source, and examples.",
    },
    "Measure": {
        "profile": "Measure where the time of a pass goes on this machine.",
        "plot": "Draw a saved profile as SVG, HTML or PNG.",
        "verify": "Compare archcli's counts with those of torch and fvcore.",
    },
    "Draw": {
        "draw": "Draw architectures to scale: every layer, and what it is made of.",
        "report": "Write a page on one to four models that calculates.",
    },
    "Serve": {"mcp": "Serve archcli as tools of an assistant, over MCP."},
    "Look": {
        "list": "List the presets with their size, attention and cache per token.",
        "survey": "Tabulate the design choices of many architectures, with medians.",
        "show": "Show the forward pass, operation by operation, with shapes.",
        "summary": "Summarize your own module: parameters, shapes, FLOPs.",
        "explain": "Explain a number: the architecture's formula, by component.",
        "families": "List the Hugging Face model types that are read, wrappers included.",
        "devices": "List GPUs and other devices, or show one with its sources.",
        "engines": "List engines, or show what one fuses, holds and takes.",
        "schema": "Print the JSON Schema of the YAML, or of a profile's JSON.",
    },
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
