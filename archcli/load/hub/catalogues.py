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
    RELEASE,
    SIGNS,
    VARIANT,
    has_release,
    name_words,
    plain_name,
    preset_file,
    presets,
    repository_name,
    respelled,
    same_release,
)
from archcli.load.yaml.text import may_read
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
    "deepseek-r1:1.5b": "deepseek-r1-distill-qwen-1.5b",
    "deepseek-r1:7b": "deepseek-r1-distill-qwen-7b",
    "deepseek-r1:8b": "qwen3-8b",
    "deepseek-r1:14b": "qwen2.5-14b",
    "deepseek-r1:32b": "qwen2.5-32b",
    "deepseek-r1:70b": "llama-3.3-70b",
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-llama-70b": "llama-3.3-70b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "deepseek-r1-0528-qwen3-8b": "qwen3-8b",
    "deepseek-r1-0528": "deepseek-r1",
    "deepseek-v3:671b": "deepseek-v3",
    "deepseek-v3-0324": "deepseek-v3",
    "deepseek-v3-base": "deepseek-v3",
    "deepseek-v3.1-terminus": "deepseek-v3.1",
    "deepseek-v3.1:671b": "deepseek-v3.1",
    "devstral": "devstral-small-24b",
    "devstral:24b": "devstral-small-24b",
    "devstral-small": "devstral-small-24b",
    "devstral-small-2": "devstral-small-2-24b",
    "deepseek-v3.2-exp": "deepseek-v3.2",
    "falcon3": "falcon3-7b",
    "gemma": "gemma-7b",
    "gemma2": "gemma-2-9b",
    "gemma3": "gemma-3-4b",
    "gemma3n": "gemma-3n-e4b",
    "gpt-oss": "gpt-oss-20b",
    "granite4:tiny-h": "granite-4.0-h-tiny",
    "kimi-k2.6": "kimi-k2.5",
    "kimi-k2.7-code": "kimi-k2.5",
    "llama2": "llama-2-7b",
    "llama3": "llama-3-8b",
    "llama3.1": "llama-3.1-8b",
    "llama3.2": "llama-3.2-3b",
    "llama4": "llama-4-scout",
    "llama4:16x17b": "llama-4-scout",
    "llama4:128x17b": "llama-4-maverick",
    "llama-4-scout-17b-16e-instruct": "llama-4-scout",
    "llama-4-maverick-17b-128e-instruct": "llama-4-maverick",
    "minimax-m2.1": "minimax-m2",
    "mistral": "mistral-7b-v0.3",
    "mistral:7b": "mistral-7b-v0.3",
    "mixtral": "mixtral-8x7b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "mixtral-8x22b-v0.1": "mixtral-8x22b",
    "mistral-large-instruct-2411": "mistral-large-123b",
    "mistral-small": "mistral-small-24b",
    "mistral-small3.2": "mistral-small-3.1-24b",
    "mistral-small3.2:24b": "mistral-small-3.1-24b",
    "mistral-small-3.2": "mistral-small-3.1-24b",
    "mistral-small-3.2-24b": "mistral-small-3.1-24b",
    "mistral-small-3.2-24b-instruct-2506": "mistral-small-3.1-24b",
    "olmo2": "olmo-2-7b",
    "olmo-2-0325-32b": "olmo-2-32b",
    "olmo-2-0425-1b": "olmo-2-1b",
    "olmo-2-1124-13b": "olmo-2-13b",
    "olmo-2-1124-7b": "olmo-2-7b",
    "olmo-3-1025-7b": "olmo-3-7b",
    "olmo-3-1125-32b": "olmo-3.1-32b",
    "olmo-3-32b": "olmo-3.1-32b",
    "olmoe-1b-7b-0924": "olmoe-1b-7b",
    "phi3": "phi-3-mini-4k",
    "phi4:14b": "phi-4",
    "qwen2": "qwen2-7b",
    "qwen2.5": "qwen2.5-7b",
    "qwen2.5-coder": "qwen2.5-7b-instruct",
    "qwen2.5-coder:0.5b": "qwen2.5-0.5b",
    "qwen2.5-coder:1.5b": "qwen2.5-1.5b-instruct",
    "qwen2.5-coder:3b": "qwen2.5-3b",
    "qwen2.5-coder:7b": "qwen2.5-7b-instruct",
    "qwen2.5-coder:14b": "qwen2.5-14b-instruct",
    "qwen2.5-coder:32b": "qwen2.5-32b-instruct",
    "qwen3": "qwen3-8b",
    "qwen3-30b-a3b-thinking-2507": "qwen3-30b-a3b-2507",
    "qwen3-235b-a22b-thinking-2507": "qwen3-235b-a22b-2507",
    "qwen3-4b-thinking-2507": "qwen3-4b-2507",
    "qwen3-coder": "qwen3-coder-30b-a3b",
    "qwen3-coder:30b": "qwen3-coder-30b-a3b",
    "qwen3-coder-next:80b": "qwen3-coder-next",
    "qwen3-next-80b-a3b-thinking": "qwen3-next-80b-a3b",
    "qwen3-vl-30b-a3b-thinking": "qwen3-vl-30b-a3b",
    "qwen3-vl-8b-thinking": "qwen3-vl-8b",
    "qwq": "qwq-32b",
    "smollm2": "smollm2-1.7b",
    "smollm3": "smollm3-3b",
    "tinyllama": "tinyllama-1.1b",
    "tinyllama-1.1b-chat-v1.0": "tinyllama-1.1b",
    "voxtral-mini-3b-2507": "voxtral-mini-3b",
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
    if (may_read(Path(name)) and _exists(Path(name))) or respelled(name):
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
    listed = _families().get(_release_name(name), "")
    same = [listed] if listed else same_release(name) or _in_parts(name)
    if len(same) > 1:
        raise ArchError(f"{quote(name)} may be several presets", f"did you mean {either(same)}?")
    return same[0] if same else None


def _families() -> Mapping[str, str]:
    return {_release_name(name): preset for name, preset in FAMILIES.items()}


def _release_name(name: str) -> str:
    """A name without signs, and without what says how it was tuned or stored but its release."""
    kept = (word for word in SIGNS.split(repository_name(name).lower()) if _tells(word))
    return "".join(kept).replace(".", "")


def _tells(word: str) -> bool:
    """Whether a word of a name tells architectures or their releases apart."""
    return bool(word) and (RELEASE.fullmatch(word) is not None or not VARIANT.fullmatch(word))


def _in_parts(name: str) -> list[str]:
    """The presets whose name begins with a name, or has all of its words; of releases the first."""
    words = set(filter(_tells, name_words(name)))
    found = [preset for preset in presets() if _begins(preset, plain_name(name))]
    tag = ":" in name or "/" in name
    found = found or [preset for preset in presets() if _holds(preset, words, exact=tag)]
    found = [preset for preset in found if has_release(preset, words)]
    return [preset for preset in found if not any(preset.startswith(f"{first}-") for first in found)]


def _begins(preset: str, plain: str) -> bool:
    """Whether a preset's name begins with all of these letters, up to the end of a word: qwen3-30b-a3b."""
    words = preset.split("-")
    begins = ("".join(words[:n]).replace(".", "") for n in range(LEAST_WORDS, len(words)))
    return plain in begins


def _holds(preset: str, tokens: Collection[str], *, exact: bool) -> bool:
    """Whether a preset's name has all of these words, of which a series may lack its number: llama 405b.

    Tags and repositories are `exact`: smollm:1.7b is not smollm2-1.7b.
    """
    words = preset.split("-")
    numberless = {} if exact else {word.rstrip("0123456789.") for word in words}
    known = {*words, *numberless}
    # `gemma 27b` is the language model: one with towers is asked for by what it reads
    return (
        len(tokens) >= LEAST_WORDS
        and known.issuperset(tokens)
        and not {words[0], *numberless}.isdisjoint(tokens)
        and OF_MEDIA.isdisjoint(known - {*tokens})
    )
