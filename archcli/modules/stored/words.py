"""Words for formats of weights and caches, such as 4bit and awq, and the formats that they mean.

What a word means may depend on the engine: 4bit is q4_k_m for llama.cpp's users, awq-int4 for vLLM's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from archcli.errors import MOST_NEAR, closest, either
from archcli.units import Taken

OF_BITS = {
    "q2": "q2_k",
    "q3": "q3_k_m",
    "q4": "q4_k_m",
    "q5": "q5_k_m",
    "q6": "q6_k",
    "q8": "q8_0",
    "2bit": "q2_k",
    "3bit": "q3_k_m",
    "4bit": "q4_k_m",
    "5bit": "q5_k_m",
    "6bit": "q6_k",
    "8bit": "q8_0",
    "int4": "q4_k_m",
}
"""What llama.cpp's and Ollama's users take where a word states bits alone."""
BY_ENGINE: Mapping[str, Mapping[str, str]] = {
    **{engine: {"4": "awq-int4", "8": "int8"} for engine in ("vllm", "sglang", "trtllm")},
    "mlx": {
        **{bits: f"mlx-{bits}bit" for bits in "234568"},
        # MLX packs every matrix: `mx.quantize(mode="mxfp4")`
        **{name: f"mlx-{name}" for name in ("mxfp4", "mxfp8", "nvfp4")},
    },
    "transformers": {"4": "nf4", "8": "int8"},
}
"""What users of an engine take instead, by the bits or by the name of a format."""
GGUF = re.compile(r"(?:ud-?)?([it]?q[1-8].*)")
"""A type of llama.cpp's; UD is Unsloth's, whose mixtures differ from model to model."""
EXLLAMA = re.compile(r"(exl[23])(\d(?:\.\d+)?)(?:bpw|bit)?|(\d(?:\.\d+)?)(?:bpw|bit)?(exl[23])")
"""exl2-4.0, exl3_3.5bpw or 4.0bpw-exl2, without the signs between."""
LLAMA_CPP = ", llama.cpp's usual"
OF_BLOCKS = {
    f"q{bits}_k": tuple(f"q{bits}_k_{size}" for size in sizes)
    for bits, sizes in ((3, "sml"), (4, "sm"), (5, "sm"))
}
"""Types of llama.cpp's that no file of its has alone, and the mixtures that are named after them."""
USUAL = "such as bf16, fp8, q8_0, q4_k_m, awq-int4 or nf4"


def plain(word: str) -> str:
    """A word in small letters without signs: 4bit of 4-bit, q4km of Q4_K_M."""
    return re.sub(r"[-_\s]", "", word.lower()).replace("bits", "bit")


def meant(word: str, known: Collection[str], *, cache: bool = False) -> str | None:
    """The format that a word means, with a note where the format has another name; else None."""
    bare = plain(word)
    if match := EXLLAMA.fullmatch(bare):
        return _of_exllama(*filter(None, match.groups()))
    same = next((name for name in known if plain(name) == bare), None)
    if same is not None or len(word) > len("bitsandbytes-4bit"):
        return same
    if cache and (name := _listed("words_of_caches", bare)):
        return _taken(word, name)
    if bare in OF_BITS:
        return _taken(word, OF_BITS[bare], LLAMA_CPP)
    name = _listed("words", bare)
    return _taken(word, name) if name else None


def _table(key: str) -> Mapping[str, Any]:
    from archcli.modules.stored.mixes import TABLE  # of words that name no format themselves

    table: Mapping[str, Any] = TABLE[key]
    return table


def _listed(key: str, word: str) -> str:
    return next((name for name, aliases in _table(key).items() if word in aliases), "")


def _of_exllama(*parts: str) -> str | None:
    bits, kind = sorted(parts)
    facts = _table("by_bits")[kind]
    return f"{kind}-{float(bits)}" if facts["least"] <= float(bits) <= facts["most"] else None


def in_engine(dtype: str | None, engine: str | None) -> str | None:
    """A format as an engine's users mean it, where a word states bits alone: 4bit is mlx-4bit in MLX."""
    of_engine = BY_ENGINE.get(engine or "", {})
    if dtype is not None and dtype in of_engine:
        return _taken(dtype, of_engine[dtype], f": {engine} packs every matrix")
    if not isinstance(dtype, Taken) or plain(dtype.word) not in OF_BITS:
        return dtype
    usual = of_engine.get(re.sub(r"\D", "", dtype.word))
    if usual is None:
        return _taken(dtype.word, OF_BITS[plain(dtype.word)], LLAMA_CPP)
    return _taken(dtype.word, usual, f", the usual of {engine}")


def blocks_note(dtype: str) -> str:
    """A note on a type that no file has alone: a mixture of fewer bits may be larger. Empty for others."""
    if dtype not in OF_BLOCKS:
        return ""
    return f"{dtype} is one type for every matrix; llama.cpp's files are mixtures: {either(OF_BLOCKS[dtype])}"


def near(word: str, known: Collection[str]) -> str:
    """A hint for a word of no format: near names, of llama.cpp's types those of as many bits."""
    lower = word.strip().lower()
    elsewhere = next(
        (hint for pattern, hint in _table("elsewhere").items() if re.fullmatch(pattern, lower)), "{}"
    )
    if "{}" not in elsewhere:
        return elsewhere
    if match := EXLLAMA.fullmatch(plain(word)):
        kind = max(filter(None, match.groups()))
        return "{0} has {least} to {most} bits a weight: {0}-4.0".format(kind, **_table("by_bits")[kind])
    if match := GGUF.fullmatch(lower):
        bits = re.search(r"[1-8]", match[1])
        alike = [name for name in known if bits and re.match(rf"[it]?q{bits[0]}", name)]
        close = closest(match[1], alike) or alike[:MOST_NEAR]
        close.sort(key=lambda name: not name.endswith("_m"))  # the usual one of its bits
    else:
        digits = set(re.findall(r"\d+", lower))
        close = [name for name in closest(lower, known) if digits <= set(re.findall(r"\d+", name))]
    return elsewhere.format(f"did you mean {either(close)}?" if close else USUAL)


def _taken(word: str, name: str, why: str = "") -> Taken:
    return Taken(name, f"{word} is taken as {name}{why}", word)
