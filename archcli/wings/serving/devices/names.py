"""Names of devices as people write them: 8xh100-sxm, 8 × H100_SXM, RTX 4090, m3-pro:36gb."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from archcli.errors import MOST_NEAR, ArchError, closest, either, quote
from archcli.wings.serving.devices.line import EXAMPLE, is_line
from archcli.wings.serving.devices.words import ALIASES, KINDS_OF_TORCH, USUAL

LOCAL = "local"
"""The name of this machine's own GPU, or of its CPU where it has none."""

UNSAID = {
    *("nvidia", "amd", "apple", "intel", "geforce", "radeon", "instinct", "tesla", "blackwell", "core"),
    *("huawei", "ascend", "amazon", "aws", "google", "tenstorrent", "wormhole", "blackhole", "habana"),
    *("gpu", "graphics", "generation", "edition", "vram", "ram", "memory", "unified", "cpu", "processor"),
    *("platinum", "gold", "silver", "with", "design"),
}
"""Words that tell no device from another: makers, series, and what drivers and people add."""
MAC = re.compile(r"\b(macbook([\s-]*(pro|air))?|imac|mac[\s-]*(mini|studio|pro)|1\d(\.\d)?[\s-]*inch)\b")
"""What a chip of Apple's is sold in."""
PLAIN = (
    # a Quadro P5000 has its number to itself, a Quadro RTX 4000 shares it with later cards
    (re.compile(r"\bquadro[\s_-]*(?=[pmkt]\d|g[pv]\d)"), ""),
    (re.compile(r"\bpro[\s_-]+(?=w\d|wx|v\d|b\d\d\b)"), ""),
    (re.compile(r"\b(core[\s_-]+ultra|ryzen)[\s_-]+[3579](?=[\s_-])"), ""),
    (re.compile(r"\bryzen[\s_-]+threadripper\b"), "threadripper"),
    (re.compile(r"\b\d+-core processor\b|\(r\)|\(tm\)|@.*"), ""),
    (re.compile(r"\b(mobile|notebook)\b"), "laptop"),
    (re.compile(r"\bmax[\s_-]+q\b"), "maxq"),
)
"""Series words that tell no device from another, and what laptops' are called."""
SERIES = re.compile(r"quadro|pro|core|ryzen|mobile|notebook|max|\(|@")
"""What one of these begins with."""
BEFORE = re.compile(
    r"(nvidia|amd|apple|geforce|radeon|instinct|rtx|rx|arc|jetson|gtx|ryzen|threadripper(pro)?|epyc|xeon"
    r"|i[3579](?=1\d{4}))+(?=.)"
)
ALIKE = (
    (re.compile(r"(\d{4})m"), r"\1laptop"),
    (re.compile(r"([79]\d{3})p"), r"\1"),
    (re.compile(r"(\d{3,5}k)f"), r"\1"),
)
"""Words of a name that is not known, and of another device: 4090m of a laptop's, 7402P and 13900KF."""
SIZE = re.compile(r"([1-9]\d{0,4})gb")
LONGEST = 100
"""Characters of a name that is read in more than one way."""
PLURAL = re.compile(r"([a-z]*\d{4}|[abhv]\d00)s")
BARE_SIZE = re.compile(r"(.*[^\W_])[\s-]+(\d{2,3})", re.DOTALL)
"""A memory without its unit: 128 of M4 Max 128."""

# 7900 XTX is no count of TX, 7950X3D none of 3D, and 4090 x2 none of a device 2
COUNTED = re.compile(
    r"\s*(?!\d{4}\s*[xX×*]\s*\d\s*$)([-+]?\d[\d.,_]*)\s*(?![xX]([tT][xX]?|3[dD])\b)[xX×*]\s*(?=\S)(.*)",
    re.DOTALL,
)
IN_WORDS = {"single": 1, "one": 1, "dual": 2, "two": 2, "three": 3, "quad": 4, "four": 4, "eight": 8}
COUNTED_IN_WORDS = re.compile(rf"\s*({'|'.join(IN_WORDS)})\s+(\S.*)", re.DOTALL | re.IGNORECASE)
# the plural tells 2 3090s from a name that begins with a number
# 8 H100, and 2 3090; but 24 GB, 80 GB A100, 16 inch MacBook and 10 core M1 count nothing
COUNTED_SPACED = re.compile(
    r"\s*(\d{1,3})\s+((?!(?:[kmgt]i?b|g|inch|cores?)\b)(?=[a-z]|\d{4}\b).*\d.*)", re.DOTALL | re.IGNORECASE
)
COUNTED_PLURAL = re.compile(r"\s*(\d{1,3})\s+([a-zA-Z\d][\w -]*\d[sS]\b.*)")
# the x of RTX 2070 counts nothing
COUNTED_AFTER = re.compile(r"(.*?[^\s×*:xX])(?:\s+[xX]|(?<=\d)[xX]|\s*[×*:])\s*(\d{1,7})", re.DOTALL)
JOINED = re.compile(r"\s*(?:[+&,;]|\band\b|\bund\b)\s*")
NUMBERS = re.compile(r"\d+")
LETTERS = re.compile(r"[a-z]+")
OF_LAPTOPS = {"laptop", "max"}
LEAST = 3
"""Letters of a word that may be misspelt, at least one more."""
MOST_DEVICES = 1_000_000


def split_count(text: str) -> tuple[int, str]:
    """The count and the rest of `8xh100-sxm`, `8 × h100-sxm`, `dual 3090` or `h100-sxm` (1).

    Raises ArchError below 1.
    """
    if match := COUNTED_IN_WORDS.fullmatch(text):
        return IN_WORDS[match[1].lower()], match[2].strip()
    # 165 TFLOP/s, 24 GB counts nothing
    match = COUNTED.fullmatch(text)
    if match is None and is_line(text):
        return 1, text.strip()
    match = match or COUNTED_PLURAL.fullmatch(text) or COUNTED_SPACED.fullmatch(text)
    if match is None:
        return 1, text.strip()
    digits, name = match[1].replace("_", "").replace(",", ""), match[match.lastindex or 2].strip()
    if not re.fullmatch(r"\d{1,7}", digits) or not 1 <= int(digits) <= MOST_DEVICES:
        hint = f"such as 8x{name}" if len(name) <= len("rtx-pro-6000-server") else ""
        what = f"{quote(match[1])} is no number of devices, from 1 to {MOST_DEVICES:,}"
        raise ArchError(what, hint)
    return int(digits), name


def is_listed_name(name: str) -> bool:
    """Whether this is a name of the list, if any: no file, no line of figures, and not this machine."""
    return not (is_file(name) or is_line(name) or name.lower() == LOCAL)


def is_file(name: str) -> bool:
    """Whether this names a user's own file rather than a device."""
    return name.lower().endswith((".yaml", ".yml"))


class DeviceName(NamedTuple):
    """A known device, the GB of its memory where its name states them, and a note on what was taken."""

    name: str
    memory_gb: int | None = None
    note: str = ""


def resolve(name: str, known: Sequence[str]) -> DeviceName:
    """The known device that a name means, of several the usual one, with a note.

    Raises ArchError with the nearest ones where it means none, or several of which none is usual.
    """
    if name in known:
        return DeviceName(name)
    name_parts, spelled = _name_parts(name), _spelled(known)
    # 4080s may be several 4080 as well as a 4080 Super
    may_be_super = f"{_key(name_parts)}uper" in spelled
    for reading in () if may_be_super else _readings(name):
        match = spelled.get(_key(reading.parts))
        if match is not None:
            return DeviceName(ALIASES.get(match, match), reading.memory_gb)
        if device := _usual(name, reading, known):
            return device
    raise _unknown(name, "-".join(name_parts), known)


def _usual(name: str, reading: _Reading, known: Sequence[str]) -> DeviceName | None:
    """The usual one of several devices: h100 is h100-sxm; None where a name is not that of several."""
    several = next((usual for usual in USUAL if _key(_name_parts(usual)) == _key(reading.parts)), None)
    if several is None:
        return None
    device = USUAL[several]
    others = [candidate for candidate in _candidates(several, known) if candidate != device]
    note = f"{name} is taken as {device}" + (f", not {either(others)}" if others else "")
    return DeviceName(device, reading.memory_gb, note)


class _Reading(NamedTuple):
    """A way to read a name: the words that tell devices apart, and the GB of a memory beside them."""

    parts: list[str]
    memory_gb: int | None = None


def _readings(name: str) -> Iterator[_Reading]:
    """All ways to read a name: as a whole, with a word as its memory, and in the singular."""
    parts = _name_parts(name)
    yield _Reading(parts)
    if len(name) > LONGEST:
        return
    for i, word in reversed([*enumerate(parts)]):
        if size := SIZE.fullmatch(word):
            rest = parts[:i] + parts[i + 1 :]
            # 80GB A100: the size may be a part of the name, which ends in it
            yield _Reading([*rest, word])
            yield _Reading(rest, int(size[1]))
    if bare := BARE_SIZE.fullmatch(name.strip()):
        yield _Reading([*_name_parts(bare[1]), f"{bare[2]}gb"])
        yield _Reading(_name_parts(bare[1]), int(bare[2]))
    for pattern, plain in ALIKE:
        if any(pattern.fullmatch(word) for word in parts):
            yield _Reading([pattern.sub(plain, word) if pattern.fullmatch(word) else word for word in parts])
    # L40S is no plural
    singular = [word.removesuffix("s") if PLURAL.fullmatch(word) else word for word in parts]
    if singular != parts:
        yield _Reading(singular)


def _spelled(known: Sequence[str]) -> dict[str, str]:
    """The names of devices and the aliases, by what all spellings of one have in common."""
    return _spellings((*known, *ALIASES))


@lru_cache(4)
def _spellings(names: tuple[str, ...]) -> dict[str, str]:
    return {_key(_name_parts(name)): name for name in names}


def _name_parts(name: str) -> list[str]:
    """The words of a name that tell devices apart: rtx, 4090 of NVIDIA GeForce RTX 4090."""
    text = re.sub(r"(\d)\s*gi?b\b", r"\1gb", MAC.sub(" ", name.lower()))
    # 24G is a memory, A10G a device
    text = re.sub(r"(?<![a-z\d])(\d+)\s*g\b", r"\1gb", text)
    for pattern, plain in PLAIN if SERIES.search(text) else ():
        text = pattern.sub(plain, text)
    parts = (re.sub(r"sxm\d", "sxm", word) for word in re.findall(r"[^\W_]+", text))
    # H100 80GB HBM3 is what the driver says
    return [word for word in parts if word not in UNSAID and not word.startswith("hbm")]


def _key(parts: Iterable[str]) -> str:
    """What all spellings of a name have in common: 4090ti of rtx-4090-ti, RTX4090 Ti and 4090ti."""
    return BEFORE.sub("", "".join(parts), count=1)


def _unknown(name: str, plain: str, known: Sequence[str]) -> ArchError:
    kind = name.strip().lower().partition(":")[0]
    if kind in KINDS_OF_TORCH:
        near = either(KINDS_OF_TORCH[kind])
        hint = f"`{LOCAL}` is this machine's own, or name one such as {near}"
        return ArchError(f"{quote(name)} is a kind of device: its memory is not known", hint)
    several = _candidates(plain, known)
    if len(several) > 1:
        return ArchError(f"{quote(name)} is ambiguous", f"did you mean {either(several)}?")
    if unlike := _unlike(name, known):
        what = f"{quote(name)} names {len(unlike)} kinds of device, and one kind is asked about at a time"
        return ArchError(what, f"such as 2x{unlike[0]}, or each alone: {either(unlike)}")
    close = several or _counted_after(name, known) or _close(plain, known)
    near = f"did you mean {either(close)}? " if close else ""
    return ArchError(f"no device {quote(name)}", f"{near}{OTHERWISE}")


OTHERWISE = (
    "`archcli devices` lists them, and `archcli devices --this` says what this machine has; of others give "
    f"a line, '{EXAMPLE}', the memory alone, 24GB, or a YAML of one's own, mine.yaml"
)
"""What a hint says of a device that is not known."""


def _is_known(name: str, known: Sequence[str]) -> bool:
    try:
        return bool(resolve(name, known))
    except ArchError:
        return False


def _unlike(name: str, known: Sequence[str]) -> list[str]:
    """The devices of a text that joins several: 3090+4090, rtx-5090 and rtx-4090; empty for one."""
    parts = (
        [split_count(part)[1] for part in JOINED.split(name) if part.strip()] if len(name) <= LONGEST else []
    )
    if len(parts) < 2 or not all(_is_known(part, known) for part in parts):  # noqa: PLR2004
        return []
    return [resolve(part, known).name for part in parts]


def _counted_after(name: str, known: Sequence[str]) -> list[str]:
    """8xh100-sxm of h100-sxm x8, where what is counted is a device."""
    counted = COUNTED_AFTER.fullmatch(name.strip())
    if counted is None or not _is_known(counted[1], known):
        return []
    return [f"{counted[2]}x{counted[1]}"]


def _close(plain: str, known: Sequence[str]) -> list[str]:
    """The nearest names that may be meant: rtx-3060 of 3060 Ti, but no card of another number.

    A name without a number may be misspelt anyhow. Another number is another device, unless it has a digit
    too many or too few.
    """
    near = [name for name in known if _numbers_agree(plain, name) and _letters_agree(plain, name)]
    # a laptop's card is meant by who says so
    near = [name for name in near if {*name.split("-")} & OF_LAPTOPS <= {*plain.split("-")}] or near
    # 7900 is a word of rx-7900-xtx, and none of w7900
    near = [name for name in near if {*NUMBERS.findall(plain)} & {*name.split("-")}] or near
    return (closest(plain, near) if len(near) > MOST_NEAR else near) or closest(plain, near)


def _numbers_agree(plain: str, name: str) -> bool:
    """Whether each number of a name is one of a device, but for its last digit: rtx-409, h1000, rtx-4091."""
    known = NUMBERS.findall(name)
    return all(any(_differ_little(number, of) for of in known) for number in NUMBERS.findall(plain))


def _differ_little(number: str, of: str) -> bool:
    last_alone = number[:-1] == of[:-1] and len(of) > len("100")
    a_digit_more = len(of) > 1 < len(number) and (of == number[:-1] or number == of[:-1])
    return number == of or last_alone or a_digit_more


def _letters_agree(plain: str, name: str) -> bool:
    """Whether the letters before the first number are those of a device, or misspelt: no RX of an RTX."""
    before, of = (set(LETTERS.findall(re.split(r"\d", text, maxsplit=1)[0])) for text in (plain, name))
    return (
        not before
        or not before.isdisjoint(of)
        or any(closest(word, of) for word in before if len(word) > LEAST)
    )


def _candidates(plain: str, known: Sequence[str]) -> list[str]:
    """The devices that a name without its memory may mean, by their own names or by an alias."""
    bare = re.sub(r"-?\b\d+gb\b", "", plain)
    return near_names(bare, known) or sorted({ALIASES[alias] for alias in near_names(bare, [*ALIASES])})


def near_names(plain: str, known: Sequence[str]) -> list[str]:
    """The devices whose name holds every part of this one: of h100, h100-nvl, h100-pcie and h100-sxm."""
    parts = set(filter(None, plain.split("-")))
    return [name for name in known if parts and parts <= set(name.split("-"))]
