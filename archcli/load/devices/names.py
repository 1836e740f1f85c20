"""Names of devices as people write them: 8xh100-sxm, 8 × H100_SXM, a100-80gb, rtx4090."""

from __future__ import annotations

import re
from collections.abc import Sequence

from archcli.errors import ArchError, closest, either, quote

LOCAL = "local"
"""The name of this machine's own GPU, or of its CPU where it has none."""

ALIASES = {
    "h100-80gb": "h100-sxm",
    "h100-sxm-80gb": "h100-sxm",
    "h100-sxm5": "h100-sxm",
    "a100-80gb": "a100-sxm-80gb",
    "a100-sxm4-80gb": "a100-sxm-80gb",
    "a100-40gb": "a100-sxm-40gb",
    "a100-sxm4-40gb": "a100-sxm-40gb",
    "v100-32gb": "v100-sxm-32gb",
    "h200": "h200-sxm",
    "b200": "b200-sxm",
    "b300": "b300-sxm",
    "3090": "rtx-3090",
    "4090": "rtx-4090",
    "5090": "rtx-5090",
    "rtx3090": "rtx-3090",
    "rtx4090": "rtx-4090",
    "rtx5090": "rtx-5090",
}
"""Names that mean one device, beside the names of the files; `h100` is none, as it may be any of three."""

KINDS_OF_TORCH = {
    "cuda": ("h100-sxm", "a100-sxm-80gb", "rtx-4090"),
    "gpu": ("h100-sxm", "a100-sxm-80gb", "rtx-4090"),
    "hip": ("mi300x", "mi325x", "mi250x"),
    "rocm": ("mi300x", "mi325x", "mi250x"),
    "hpu": ("gaudi3",),
    "mps": ("m4-max", "m3-max", "m2-ultra"),
    "cpu": ("grace-72",),
}
"""What torch and others call a kind of device, and devices of it whose memory is known."""

COUNTED = re.compile(r"\s*([-+]?\d[\d.,_]*)\s*[xX×*]\s*(?=\S)(.*)", re.DOTALL)
COUNTED_AFTER = re.compile(r"(.*?[^\s×*:xX])\s*[xX×*:]\s*(\d{1,7})", re.DOTALL)
MOST_DEVICES = 1_000_000


def split_count(text: str) -> tuple[int, str]:
    """The count and the rest of `8xh100-sxm`, `8 × h100-sxm` or `h100-sxm` (1); ArchError below 1."""
    match = COUNTED.fullmatch(text)
    if match is None:
        return 1, text.strip()
    digits, name = match[1].replace("_", "").replace(",", ""), match[2].strip()
    if not re.fullmatch(r"\d{1,7}", digits) or not 1 <= int(digits) <= MOST_DEVICES:
        hint = f"such as 8x{name}" if len(name) <= len("rtx-pro-6000-server") else ""
        what = f"{quote(match[1])} is no number of devices, from 1 to {MOST_DEVICES:,}"
        raise ArchError(what, hint)
    return int(digits), name


def is_file(name: str) -> bool:
    """Whether this names a user's own file rather than a device."""
    return name.lower().endswith((".yaml", ".yml"))


def resolve(name: str, known: Sequence[str]) -> str:
    """The known device that a name means; ArchError with the nearest ones where it means none or several."""
    plain = re.sub(r"[\s_]+", "-", name.strip().lower())
    # the vendor before the series, as in nvidia-geforce-rtx-4090
    for prefix in ("nvidia-", "amd-", "apple-", "geforce-"):
        plain = plain.removeprefix(prefix)
    if plain in known:
        return plain
    if plain in ALIASES:
        return ALIASES[plain]
    raise _unknown(name, plain, known)


def _unknown(name: str, plain: str, known: Sequence[str]) -> ArchError:
    kind = plain.partition(":")[0]
    if kind in KINDS_OF_TORCH:
        near = either(KINDS_OF_TORCH[kind])
        hint = f"`{LOCAL}` is this machine's own, or name one such as {near}"
        return ArchError(f"{quote(name)} is a kind of device: its memory is not known", hint)
    several = near_names(plain, known)
    if several:
        return ArchError(f"{quote(name)} is ambiguous", f"did you mean {either(several)}?")
    counted = COUNTED_AFTER.fullmatch(name.strip())
    close = [f"{counted[2]}x{counted[1]}"] if counted else closest(plain, known)
    hint = f"did you mean {either(close)}?" if close else "`archcli devices` lists them"
    return ArchError(f"no device {quote(name)}", f"{hint}; a file of one's own ends in .yaml")


def near_names(plain: str, known: Sequence[str]) -> list[str]:
    """The devices whose name holds every part of this one: of h100, h100-nvl, h100-pcie and h100-sxm."""
    parts = set(plain.split("-"))
    return [name for name in known if parts <= set(name.split("-"))]
