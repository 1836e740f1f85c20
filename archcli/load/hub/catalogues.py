"""Names of models in other catalogues, as a preset and a format: llama3.1:70b-q4_K_M of Ollama's.

A name may be an Ollama tag, a repository of the Hugging Face hub or what people call a model. Nothing is
asked of the network.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from archcli.errors import ArchError, either, quote
from archcli.load.hub.cache import SCHEME, cached, reference
from archcli.load.presets import (
    LONGEST_NAME,
    VARIANT,
    plain_name,
    preset_file,
    presets,
    repository_name,
    respelled,
    same_preset,
)
from archcli.modules.stored.words import OF_BITS, near

LLAMA_CPP = r"(?:ud-)?(?P<llama_cpp>i?q[1-8](?:[_-](?:0|1|k|nl|xs|xxs|s|m|l|xl))*)"
OF_PROGRAMS = {
    r"awq(?:-int4)?|w4a16-awq": "awq-int4",
    r"gptq(?:-int4)?|w4a16": "gptq-int4",
    r"bnb-4bit|nf4": "nf4",
    r"mlx-4bit": "mlx-4bit",
    r"mxfp4": "mxfp4",
    r"nvfp4": "nvfp4",
    r"fp8(?:-dynamic)?": "fp8",
    r"int8|w8a8": "int8",
    r"bf16": "bf16",
    r"fp16|f16": "fp16",
}
"""Formats in names of the hub's repositories, and what `--dtype` calls them; the first that fits is taken."""
WORD = r"(?<![a-z0-9])(?:{})(?![a-z0-9])"
WEB = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/")
PATHS = ("-", ".", "/", "~", SCHEME)
"""What begins so names no model of a catalogue: standard input, a path, or the hub's model itself."""
LEAST_WORDS = 2
"""Fewer words of a preset's name are those of too many."""
OF_MEDIA = {"vision", "vl", "audio"}
"""Words by which a model with towers differs from its language model."""

FAMILIES = {
    "deepseek-r1:671b": "deepseek-r1",
    "deepseek-r1:7b": "qwen2.5-7b",
    "deepseek-r1:8b": "qwen3-8b",
    "deepseek-r1:14b": "qwen2.5-14b",
    "deepseek-r1:32b": "qwen2.5-32b",
    "deepseek-r1:70b": "llama-3.3-70b",
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-llama-70b": "llama-3.3-70b",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "deepseek-r1-0528-qwen3-8b": "qwen3-8b",
    "deepseek-v3:671b": "deepseek-v3",
    "falcon3": "falcon3-7b",
    "gemma": "gemma-7b",
    "gemma2": "gemma-2-9b",
    "gemma3": "gemma-3-4b",
    "gemma3n": "gemma-3n-e4b",
    "gpt-oss": "gpt-oss-20b",
    "granite4:tiny-h": "granite-4.0-h-tiny",
    "llama2": "llama-2-7b",
    "llama3": "llama-3-8b",
    "llama3.1": "llama-3.1-8b",
    "llama3.2": "llama-3.2-3b",
    "llama4": "llama-4-scout",
    "llama4:16x17b": "llama-4-scout",
    "mistral": "mistral-7b-v0.3",
    "mistral:7b": "mistral-7b-v0.3",
    "mixtral": "mixtral-8x7b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "mixtral-8x22b-v0.1": "mixtral-8x22b",
    "olmo2": "olmo-2-7b",
    "phi3": "phi-3-mini-4k",
    "phi4:14b": "phi-4",
    "qwen2": "qwen2-7b",
    "qwen2.5": "qwen2.5-7b",
    "qwen2.5-coder": "qwen2.5-7b",
    "qwen3": "qwen3-8b",
    "qwen3-coder": "qwen3-30b-a3b",
    "qwen3-coder:30b": "qwen3-30b-a3b",
    "qwen3-coder-30b-a3b": "qwen3-30b-a3b",
    "qwq": "qwen2.5-32b",
    "qwq-32b": "qwen2.5-32b",
    "smollm2": "smollm2-1.7b",
    "tinyllama": "tinyllama-1.1b",
    **{f"qwen2.5-coder:{size}": f"qwen2.5-{size}" for size in ("0.5b", "1.5b", "3b", "7b", "14b", "32b")},
}
"""Names of https://ollama.com/library and of the hub, and the preset of the same architecture."""


class CatalogueName(NamedTuple):
    """What a name stands for: a MODEL as `load` takes it, a format, and a note on what was taken for it.

    `dtype` is as `--dtype` takes it, empty where the name states no format.
    """

    model: str
    dtype: str = ""
    note: str = ""


def of_catalogue(name: str) -> CatalogueName:
    """The preset and the format that a name of another catalogue stands for; else the name itself.

    Files, presets, `hf://…` and repositories in the hub's cache keep their meaning. Raises ArchError with the
    presets where a name may be several.
    """
    if name.startswith(PATHS) or len(name) > LONGEST_NAME or preset_file(name).is_file():
        return CatalogueName(name)
    if _exists(Path(name)) or respelled(name):
        return CatalogueName(respelled(name) or name)
    bare = WEB.sub("", name)
    words, dtype, note = _without_format(bare)
    for repository, stored in ((bare, ""), (words, dtype)):
        if _is_cached(repository):
            return CatalogueName(repository, stored, note if stored else "")
    return preset_meant(name) or CatalogueName(name)


def preset_meant(name: str) -> CatalogueName | None:
    """The preset and the format that a name stands for by its letters alone; None for neither.

    No file and no cache is looked at. Raises ArchError with the presets where a name may be several.
    """
    if name.startswith(PATHS) or len(name) > LONGEST_NAME:
        return None
    words, dtype, note = _without_format(WEB.sub("", name))
    preset = _preset_of(words)
    if preset is None:
        return None
    said = "" if preset == name else f"{name} is taken as the preset {preset}"
    return CatalogueName(preset, dtype, "; ".join(filter(None, (said, note))))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False


def _is_cached(name: str) -> bool:
    """Whether the hub's cache holds the config.json of a repository of this name."""
    wanted = reference(name)
    return wanted is not None and cached(wanted) is not None


def _without_format(name: str) -> tuple[str, str, str]:
    """The name without its format, that by archcli's name (or empty), and a note on it."""
    lower = name.lower()
    if found := re.search(WORD.format(LLAMA_CPP), lower):
        return _cut(name, found), *_of_llama_cpp(found["llama_cpp"].replace("-", "_"))
    for pattern, dtype in OF_PROGRAMS.items():
        if found := re.search(WORD.format(pattern), lower):
            return _cut(name, found), dtype, ""
    if found := re.search(WORD.format(r"([48])-?bit|int4"), lower):
        bits = found[0].replace("-", "")
        if bits == "4bit" and "mlx" in lower:
            return _cut(name, found), "mlx-4bit", ""
        return _cut(name, found), OF_BITS[bits], f"{found[0]} is taken as {OF_BITS[bits]}"
    return name, "", ""


def _cut(name: str, found: re.Match[str]) -> str:
    """The name without a part, and without the sign before it."""
    before, after = name[: found.start()].rstrip(":-_. "), name[found.end() :]
    return f"{before}{after}" if before else after.lstrip(":-_. ")


def _of_llama_cpp(kind: str) -> tuple[str, str]:
    """A format of llama.cpp's by archcli's name, empty where that knows none; and a note."""
    from archcli.modules.stored.formats import FORMATS, is_format  # of names that state a format

    if kind in OF_BITS:
        return OF_BITS[kind], f"{kind} is taken as {OF_BITS[kind]}"
    return (kind, "") if is_format(kind) else ("", f"the format {kind} is not known, {near(kind, FORMATS)}")


def _preset_of(name: str) -> str | None:
    """The preset that a name without format stands for; None where it stands for none."""
    same = same_preset(name) or _families().get(plain_name(name), "").split()
    # a repository is taken by its whole name alone: others are tuned, merged or cut
    if not same and "/" not in name:
        tokens = _tokens(repository_name(name))
        same = [preset for preset in presets() if _begins(preset, plain_name(name))]
        same = same or [preset for preset in presets() if _holds(preset, tokens)]
    if len(same) > 1:
        raise ArchError(f"{quote(name)} may be several presets", f"did you mean {either(same)}?")
    return same[0] if same else None


def _families() -> Mapping[str, str]:
    return {plain_name(name): preset for name, preset in FAMILIES.items()}


def _tokens(name: str) -> set[str]:
    """The words of a name that tell architectures apart."""
    return {word for word in re.split(r"[-_:\s/]+", name.lower()) if word and not VARIANT.fullmatch(word)}


def _begins(preset: str, plain: str) -> bool:
    """Whether a preset's name begins with all of these letters, up to the end of a word: qwen3-30b-a3b."""
    words = preset.split("-")
    begins = ("".join(words[:n]).replace(".", "") for n in range(LEAST_WORDS, len(words)))
    return plain in begins


def _holds(preset: str, tokens: Collection[str]) -> bool:
    """Whether a preset's name has all of these words, of which a series may lack its number: llama 405b."""
    words = preset.split("-")
    known = {*words, *(word.rstrip("0123456789.") for word in words)}
    # `gemma 27b` is the language model: one with towers is asked for by what it reads
    return len(tokens) >= LEAST_WORDS and known.issuperset(tokens) and OF_MEDIA.isdisjoint(known - {*tokens})
