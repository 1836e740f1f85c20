"""Names of models in other catalogues, as a preset and a format: llama3.1:70b-q4_K_M of Ollama's.

A name may be an Ollama tag, a repository of the Hugging Face hub or what people call a model. Nothing is
asked of the network.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from archcli.errors import ArchError, either, quote
from archcli.load.hub.aliases import CHANGED, FAMILIES, TAGS, respelled
from archcli.load.hub.cache import SCHEME, cached, reference
from archcli.load.presets import (
    LONGEST_NAME,
    RELEASE,
    SIGNS,
    STORED,
    VARIANT,
    has_release,
    name_words,
    plain_name,
    preset_file,
    presets,
    repository_name,
    same_release,
)
from archcli.load.yaml.text import may_read
from archcli.modules.stored.words import OF_BITS, near

LLAMA_CPP = r"(?P<llama_cpp>(?:ud-)?[it]?q[1-8](?:[_-](?:0|1|k|nl|xs|xxs|s|m|l|xl))*)"
OF_PROGRAMS = {
    r"awq(?:-int4)?|w4a16-awq": "awq-int4",
    r"gptq(?:-int4)?|w4a16": "gptq-int4",
    r"bnb-4bit|nf4": "nf4",
    **{f"mlx-{bits}bit": f"mlx-{bits}bit" for bits in "234568"},
    r"mxfp4[_-]moe": "mxfp4-moe",
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
UNTOLD = re.compile(rf"\d+(?:\.\d+)*|a\d+(?:\.\d+)?b|{VARIANT.pattern}")
"""Words of a preset's name that a name may lack: active parameters, numbers. Sizes, kinds, v3 tell others."""
DATE = re.compile(r"\d{4}")
TUNED = re.compile(r"instruct|chat|it|pt")
"""Words of a name in the tables that are no part of the family's."""
UNQUANTIZED = re.compile(r"-(?:q4_0|int4)-unquantized", re.IGNORECASE)
QAT_TAG = re.compile(r":.*-it-qat$")
"""Ollama's tags of weights that were trained for 4 bits: gemma3:27b-it-qat has the size of q4_0."""


class CatalogueName(NamedTuple):
    """What a name stands for: a MODEL as `load` takes it, a format, and a note on what was taken for it.

    `dtype` is as `--dtype` takes it, empty where the name states no format. `changes` are what the named
    model has otherwise, as `--set` takes it.
    """

    model: str
    dtype: str = ""
    note: str = ""
    changes: tuple[str, ...] = ()


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
    formatless, dtype, note = _without_format(bare)
    for repository, stored in ((bare, ""), (formatless, dtype)):
        if _is_cached(repository):
            return CatalogueName(repository, stored, note if stored else "")
    return preset_meant(name) or CatalogueName(name)


def preset_meant(name: str) -> CatalogueName | None:
    """The preset and the format that a name stands for by its letters alone; None for neither.

    No file and no cache is looked at. Raises ArchError with the presets where a name may be several.
    """
    if name.startswith(PATHS) or len(name) > LONGEST_NAME:
        return None
    formatless, dtype, note = _without_format(WEB.sub("", name))
    meant = TAGS.get(name.lower()) or _preset_of(formatless)
    if meant is None:
        return None
    preset, *changes = meant
    said = "" if preset == name else f"{name} is taken as the preset {preset}"
    said += f" with {', '.join(change.replace('=', ' ', 1) for change in changes)}" if changes else ""
    return CatalogueName(preset, dtype, "; ".join(filter(None, (said, note))), (*changes,))


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
    if "unquantized" in lower:  # weights trained for a format that they are not stored in
        return UNQUANTIZED.sub("", name), "", ""
    if match := re.search(WORD.format(LLAMA_CPP), lower):
        return _cut(name, match), *_of_llama_cpp(match["llama_cpp"].replace("-", "_").replace("ud_", "ud-"))
    for pattern, dtype in OF_PROGRAMS.items():
        if match := re.search(WORD.format(pattern), lower):
            return _cut(name, match), dtype, ""
    if match := re.search(WORD.format(r"([234568])-?bit|int4"), lower):
        return _cut(name, match), *_of_bits(match[0].replace("-", ""), match[0], lower)
    return name, "q4_0" if QAT_TAG.search(lower) else "", ""


def _of_bits(bits: str, said: str, name: str) -> tuple[str, str]:
    """The usual format of so many bits, and a note; that of MLX's files has no choice."""
    if bits.endswith("bit") and "mlx" in name:
        return f"mlx-{bits}", ""
    return OF_BITS[bits], f"{said} is taken as {OF_BITS[bits]}"


def _cut(name: str, match: re.Match[str]) -> str:
    """The name without a part, and without the sign before it."""
    before, after = name[: match.start()].rstrip(":-_. "), name[match.end() :]
    return f"{before}{after}" if before else after.lstrip(":-_. ")


def _of_llama_cpp(kind: str) -> tuple[str, str]:
    """(archcli's name of a format of llama.cpp, note); the name is empty for an unknown format."""
    from archcli.modules.stored.formats import FORMATS, is_format  # of names that state a format

    if kind in OF_BITS:
        return OF_BITS[kind], f"{kind} is taken as {OF_BITS[kind]}"
    # of Unsloth's mixtures few files are known: ud-q3_k_s is taken as q3_k_s
    known = next(filter(is_format, (kind, kind.removeprefix("ud-"))), "")
    return known, "" if known else f"the format {kind} is not known, {near(kind, FORMATS)}"


def _preset_of(name: str) -> tuple[str, ...] | None:
    """The preset that a name without format means, then its changes; None where it means none."""
    if listed := _listed(name):
        return listed
    same = same_release(name) or _in_parts(name)
    if len(same) > 1:
        raise ArchError(f"{quote(name)} may be several presets", f"did you mean {either(same)}?")
    return (same[0],) if same else None


def _listed(name: str) -> tuple[str, ...] | None:
    """The tables' entry for a name: for all of it, else without words of tuning such as instruct."""
    tables = {**{listed: (preset,) for listed, preset in FAMILIES.items()}, **CHANGED}
    by_words = {_letters(listed, STORED): meant for listed, meant in tables.items()}
    families = {
        _release_name(listed): meant
        for listed, meant in tables.items()
        if not any(map(TUNED.fullmatch, name_words(listed)))
    }
    return by_words.get(_letters(name, STORED)) or families.get(_release_name(name))


def _letters(name: str, dropped: re.Pattern[str]) -> str:
    parts = SIGNS.split(repository_name(name).lower())
    return "".join(word for word in parts if not dropped.fullmatch(word)).replace(".", "")


def _release_name(name: str) -> str:
    """A name without signs, and without what says how it was tuned or stored but its release."""
    kept = (word for word in SIGNS.split(repository_name(name).lower()) if _tells(word))
    return "".join(kept).replace(".", "")


def _tells(word: str) -> bool:
    """Whether a word of a name tells architectures or their releases apart."""
    return bool(word) and (RELEASE.fullmatch(word) is not None or not VARIANT.fullmatch(word))


def _in_parts(name: str) -> list[str]:
    """The presets whose name begins with a name, or has all of its words; of releases the first."""
    parts = set(filter(_tells, name_words(name)))
    candidates = [preset for preset in presets() if _begins(preset, plain_name(name))]
    tag = ":" in name or "/" in name
    candidates = candidates or [preset for preset in presets() if _holds(preset, parts, exact=tag)]
    candidates = [preset for preset in candidates if has_release(preset, parts)]
    first = [
        preset for preset in candidates if not any(preset.startswith(f"{begin}-") for begin in candidates)
    ]
    dated = any(map(DATE.fullmatch, parts))
    return first if len(first) > 1 or dated else [preset for preset in first if not [*_untold(preset, name)]]


def _untold(preset: str, name: str) -> Iterator[str]:
    """Words of a preset's name for a size or kind that `name` lacks: moe, for phi3.5."""
    letters = _release_name(name)
    for word in preset.split("-"):
        bare = word.replace(".", "")
        if not UNTOLD.fullmatch(word) and bare not in letters and bare.rstrip("0123456789") not in letters:
            yield word


def _begins(preset: str, plain: str) -> bool:
    """Whether a preset's name begins with all of these letters, up to the end of a word: qwen3-30b-a3b."""
    parts = preset.split("-")
    begins = ("".join(parts[:n]).replace(".", "") for n in range(LEAST_WORDS, len(parts)))
    return plain in begins


def _holds(preset: str, tokens: Collection[str], *, exact: bool) -> bool:
    """Whether a preset's name has all of these words; a series may lack its number, as in llama 405b.

    Tags and repositories are `exact`: smollm:1.7b is not smollm2-1.7b.
    """
    parts = preset.split("-")
    numberless = {} if exact else {word.rstrip("0123456789.") for word in parts}
    known = {*parts, *numberless}
    # `gemma 27b` is the language model: one with towers is asked for by what it reads
    return (
        len(tokens) >= LEAST_WORDS
        and known.issuperset(tokens)
        and not {parts[0], *numberless}.isdisjoint(tokens)
        and OF_MEDIA.isdisjoint(known - {*tokens})
    )
