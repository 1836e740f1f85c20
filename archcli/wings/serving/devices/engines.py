"""Inference engines and trainers: the YAML files with facts on each, and with constants of kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, quote, suggest
from archcli.load.presets import shipped
from archcli.load.yaml.nodes import plain
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import decode, read_start, text_of
from archcli.units import Taken

# a regular expression cuts one block out of a large file, as parsing all of its YAML is slow
DEVICE = re.compile(r"^  ([a-z0-9-]+):\n((?:    .*\n)+)", re.MULTILINE)
"""A device of `kernels`, and the lines below it."""
OPERATION = re.compile(r"^    ([a-z_]+):\n((?:      .*\n)+)", re.MULTILINE)
"""An operation of a device, and the lines below it."""
RUN_BY = {
    "llamacpp": (
        *("ollama", "lm studio", "llama-cpp", "llama-cpp-python", "llama-server", "llama-cli", "llamafile"),
        *("ik_llama.cpp", "koboldcpp", "jan", "gpt4all", "ggml", "gguf"),
    ),
    "mlx": ("mlx-lm", "mlx-vlm", "vllm-mlx", "rapid-mlx", "omlx"),
    "trtllm": ("tensorrt-llm", "tensorrt", "trt-llm", "trt"),
    "vllm": ("vllm-ascend", "aphrodite", "vllm-openai"),
    "sglang": ("sgl",),
    "transformers": ("hf", "hugging face", "transformers-serve"),
    "none": ("torch", "pytorch", "eager", "eager torch"),
}
"""Other names of an engine: programs that contain it. Case, dashes and dots are ignored."""
NEAREST = {
    **dict.fromkeys(("tgi", "text-generation-inference", "lmdeploy", "deepspeed-mii", "triton"), "vllm"),
    **dict.fromkeys(
        ("exllama", "exllamav2", "exllamav3", "tabbyapi", "mlc", "mlc-llm", "aitemplate"), "vllm"
    ),
    **dict.fromkeys(("ktransformers", "ds4", "bitnet.cpp", "powerinfer", "candle"), "llamacpp"),
    "tensorrt-edge-llm": "trtllm",
}
"""Engines that archcli does not know, and the nearest that it knows."""
NEAREST_TRAINERS = {
    **dict.fromkeys(("autotrain", "bitsandbytes", "lora", "qlora"), "peft"),
    **dict.fromkeys(("hf", "huggingface", "trainer"), "transformers"),
    **dict.fromkeys(("accelerate", "fsdp", "fsdp1"), "fsdp2"),
    **dict.fromkeys(("zero", "ds"), "deepspeed"),
    **dict.fromkeys(("nemo", "megatronlm", "megatronbridge", "mcore"), "megatron"),
    **dict.fromkeys(("sft", "sfttrainer"), "trl"),
    **dict.fromkeys(("dpo", "dpotrainer"), "trl-dpo"),
    **dict.fromkeys(("grpo", "grpotrainer"), "trl-grpo"),
    "torchtune": "torchtitan",
}
"""Trainers that archcli does not know, and the nearest that it knows."""
KernelEntries = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""Constants of kernels by device and by operation, such as attention_prefill."""
Speeds = Mapping[str, Mapping[str, Any]]
"""Constants of whole runs by family of devices, such as gpu."""


def folder() -> Path:
    """The folder of engines."""
    return shipped("engines")


def kernels_folder() -> Path:
    """The folder of the constants of kernels."""
    return folder() / "kernels"


def engines() -> list[str]:
    """The names of the engines that come with archcli, in alphabetical order."""
    return list(_names(folder()))


def measured_engines() -> list[str]:
    """The names of engines and libraries whose kernels were measured."""
    return list(_names(kernels_folder()))


@cache
def _names(place: Path) -> tuple[str, ...]:
    """The names of the files in a folder, in alphabetical order."""
    return tuple(sorted(path.stem for path in place.glob("*.yaml")))


def engine_named(name: str) -> str:
    """The engine of a name as people write it: `ollama` is llamacpp, with a note.

    Raises ArchError, with the nearest engine, for an unknown name.
    """
    known, key = engines(), _key(name)
    if isinstance(name, Taken):
        return name
    # vLLM is vllm, and llama.cpp is llamacpp
    if key in known:
        return key
    meant = {_key(word): engine for engine, aliases in RUN_BY.items() for word in aliases}
    if key in meant:
        engine = meant[key]
        return Taken(engine, f"{name} is taken as the engine {engine}", name)
    nearest = {_key(word): engine for word, engine in NEAREST.items()}.get(key)
    hint = f"the nearest is {nearest}" if nearest else suggest(name, known)
    raise ArchError(f"no engine {quote(name)}", hint)


def _key(name: str) -> str:
    return re.sub(r"[-_.\s]", "", name.lower())


@cache
def load_engine(name: str) -> Mapping[str, Any]:
    """The facts of an engine by their names. Raises ArchError for an engine that is not known."""
    if name not in engines():
        raise ArchError(f"no engine {quote(name)}", suggest(name, engines()))
    return _facts_in(engine_file(name))


def trainers() -> list[str]:
    """The names of the trainers that come with archcli, in alphabetical order."""
    return list(_names(shipped("trainers")))


@cache
def load_trainer(name: str) -> Mapping[str, Any]:
    """The facts of a trainer, in whatever case. Raises ArchError for one that is not known."""
    named = {_key(known): known for known in trainers()}.get(_key(name))
    if named is None:
        nearest = NEAREST_TRAINERS.get(_key(name))
        hint = f"the nearest is {nearest}" if nearest else suggest(name, trainers())
        raise ArchError(f"no trainer {quote(name)}", hint)
    return _facts_in(shipped("trainers") / f"{named}.yaml")


def _facts_in(path: Path) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = _parsed(_text(path), path.name)
    return facts


def runs_on(name: str, platform: str, what: str = "") -> bool:
    """Whether an engine runs on a platform, sm_86 or `Intel gpu`, or a format or `fp8 cache` there.

    True where nothing is stated, and on devices of makers that no engine states.
    """
    facts = load_engine(name)
    places = facts.get("formats_on", {}).get(what) if what else facts.get("runs_on")
    if places is None or not (platform.startswith(("sm_", "gfx")) or platform in _platforms()):
        return True
    return any(_is_at(place, platform) for place in places)


@cache
def _platforms() -> frozenset[str]:
    """The platforms that any engine states."""
    return frozenset(place for name in engines() for place in load_engine(name).get("runs_on", ()))


def _is_at(place: str, platform: str) -> bool:
    """Whether a platform is the one that a fact states; of sm_80 also a later one."""
    if place.startswith("sm_") and platform.startswith("sm_"):
        return int(platform.removeprefix("sm_")) >= int(place.removeprefix("sm_"))
    return place == platform


def engine_file(name: str) -> Path:
    """The file of an engine's facts."""
    return folder() / f"{name}.yaml"


def measured_devices(name: str) -> list[str]:
    """The devices on which an engine's kernels were measured; empty for an engine without measurements."""
    return list(_blocks(name)) if name in measured_engines() else []


@cache
def kernel_entries(name: str, device: str, operation: str) -> Sequence[Mapping[str, Any]]:
    """The constants of an engine's kernels for an operation on one device; empty without any.

    Only their lines are parsed. Raises ArchError for an engine without measurements.
    """
    blocks = dict(OPERATION.findall(_blocks(name).get(device, "")))
    entries: Sequence[Mapping[str, Any]] = ()
    if operation in blocks:
        entries = _parsed(blocks[operation], f"{name}.yaml")
    return entries


@cache
def load_kernels(name: str) -> KernelEntries:
    """The constants of an engine's kernels. Raises ArchError where none were measured."""
    kernels: KernelEntries = _parsed(_kernels_text(name), f"{name}.yaml").get("kernels", {})
    return kernels


@cache
def _blocks(name: str) -> Mapping[str, str]:
    """The text below each device of an engine's `kernels`."""
    text = _kernels_text(name)
    return {block[1]: block[2] for block in DEVICE.finditer(text[text.find("\nkernels:") :])}


def _kernels_text(name: str) -> str:
    if name not in measured_engines():
        raise ArchError(f"no kernels of engine {quote(name)}", suggest(name, measured_engines()))
    return _text(kernels_folder() / f"{name}.yaml")


@cache
def load_speeds(name: str) -> Speeds:
    """The constants of an engine's whole runs. Raises ArchError for a file that cannot be read."""
    path = speeds_file(name)
    speeds: Speeds = _parsed(_text(path), path.name)
    return speeds


def speeds_file(name: str) -> Path:
    """The file with the constants of an engine's whole runs."""
    return folder() / "speeds" / f"{name}.yaml"


def _text(path: Path) -> str:
    return decode(read_start(path, path.name), path.name)


def _parsed(text: str, shown_as: str) -> Any:
    document = parse(text_of(text, shown_as))
    if document.problems or document.root is None:
        raise ArchError(document.problems)
    return plain(document.root)
