"""Metadata of a GGUF file under its architecture's prefix, read key by key."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from archcli.errors import ArchError, Problem, closest, quote, shorten
from archcli.load.gguf.arch import Arch
from archcli.load.gguf.families import ARCHS, DEEPSEEK_V3, MISTRAL, MIXTRAL, OLMO3
from archcli.load.gguf.header import Header, Skipped
from archcli.load.gguf.newer import GRANITE_SHARED
from archcli.load.gguf.recurrent import BAMBA, FALCON_MAMBA, GRANITE_HYBRID

ConfigData = dict[str, Any]
"""A config.json as it is being made."""

SIGMOID = 2
"""`expert_gating_func`: 1 softmax, 2 sigmoid."""

DIGITS = range(6, 10)
"""Significant digits that a float of 32 bits may need."""

FLOAT = struct.Struct("<f")


REFINED = (
    ("llama", "expert_count", MIXTRAL),
    ("llama", "attention.sliding_window", MISTRAL),
    ("olmo2", "attention.sliding_window", OLMO3),
    ("mamba", "ssm.dt_b_c_rms", FALCON_MAMBA),
    ("granitehybrid", "embedding_scale", GRANITE_HYBRID),
    ("granitehybrid", "rope.scaling.finetuned", BAMBA),
    ("granitemoe", "expert_shared_feed_forward_length", GRANITE_SHARED),
)
"""(architecture, metadata key, the Arch of files with that key); the first that fits is taken."""


@dataclass
class Facts:
    """Metadata under the architecture's prefix, and the keys read so far.

    header, file: the file's header, and its name in errors.
    name: `general.architecture`, the prefix. arch: what archcli knows of that architecture.
    read: keys that were asked for. notes: for the user.
    keys: of keys of the config.json the metadata keys that they were read from.
    """

    header: Header
    file: str
    name: str
    arch: Arch
    read: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key; a per-layer list of equal values is reduced to one."""
        self.read.add(key)
        value = self.header.metadata.get(f"{self.name}.{key}")
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if isinstance(value, list | Skipped):
            what = f"{self.name}.{key} differs from layer to layer"
            raise self.error(f"{what}, which is not supported for {self.name}")
        return default if value is None else rounded(value) if isinstance(value, float) else value

    def per_layer(self, key: str) -> Any:
        """The value of a key that may be a list with an entry for each layer; None where it is absent."""
        self.read.add(key)
        return self.header.metadata.get(f"{self.name}.{key}")

    def of_layers(self, key: str, *, longer: bool = False) -> list[int]:
        """The values of a key that has one for each layer: whole numbers, or truth values.

        `longer`: it may have those of further layers, of multi-token prediction, which are kept.
        """
        values = self.per_layer(key)
        layers = self.whole("block_count")
        if not isinstance(values, list) or (len(values) < layers if longer else len(values) != layers):
            raise self.error(f"{self.name}.{key} is not one value for each layer")
        # True counts as an int here: recurrent_layers is a list of truth values
        strange = next((value for value in values if not isinstance(value, int) or value < 0), None)
        if strange is not None:
            raise self.error(f"{self.name}.{key} must be whole numbers, not {shorten(repr(strange))}")
        return values

    def number(self, key: str, default: float = 0) -> float:
        """A number, or the default where the key is absent."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{self.name}.{key} must be a number, not {shorten(repr(value))}")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number. Raises ArchError where it is none, or there is neither key nor default."""
        value = self.get(key, default)
        # True is an int to Python, but no size
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            fault = "is missing" if value is None else f"must be a whole number, not {shorten(repr(value))}"
            raise self.error(f"metadata key '{self.name}.{key}' {fault}")
        return value

    def trace(self, theirs: str, key: str) -> None:
        """Record the metadata key from which a key of the config.json derives, if the file has it."""
        if f"{self.name}.{key}" in self.header.metadata:
            self.keys[theirs] = f"{self.name}.{key}"

    def has(self, tensor: str) -> bool:
        """Whether the file has a tensor of that name, in which * stands for anything."""
        names = self.header.tensors
        return any(fnmatchcase(name, tensor) for name in names) if "*" in tensor else tensor in names

    def error(self, what: str, hint: str = "") -> ArchError:
        """A user's error about this file."""
        return ArchError(Problem(what, hint, path=self.file))


def rounded(value: float) -> float:
    """The shortest decimal of a float32: 1e-05, not 9.999999747378752e-06."""
    try:
        stored = FLOAT.pack(value)
        shorter = (float(f"{value:.{digits}g}") for digits in DIGITS)
        # a value that was stored in 64 bits is not of float32, and stays
        same = FLOAT.unpack(stored)[0] == value
        return next((short for short in shorter if same and FLOAT.pack(short) == stored), value)
    # struct refuses to pack a double beyond the range of float32
    except OverflowError:
        return value


def facts_of(header: Header, file: str) -> Facts:
    """The facts of a file; ArchError where its architecture is not known."""
    name = header.metadata.get("general.architecture")
    kind = header.metadata.get("general.type", "model")
    if kind != "model":
        what = f"the file is of the type {quote(str(kind))}, no model"
        raise ArchError(Problem(what, "give the model's own file", path=file))
    if not isinstance(name, str) or not name:
        what = "metadata key 'general.architecture' is missing"
        raise ArchError(Problem(what, "it names the family, such as llama", path=file))
    if name not in ARCHS:
        near = closest(name, ARCHS)
        hint = (
            f"nearest known: {', '.join(near)}" if near else f"{len(ARCHS)} others are, llama and qwen3 too"
        )
        raise ArchError(Problem(f"architecture {quote(name)} is not supported", hint, path=file))
    facts = Facts(header, file, name, ARCHS[name])
    # a value of 0 or false does not count as stated: expert_count 0 is no mixture
    facts.arch = next((arch for of, key, arch in REFINED if of == name and facts.get(key)), facts.arch)
    # llama.cpp names V2, V3 and R1 alike; V3 scores its experts by a sigmoid (arXiv:2412.19437)
    if name == "deepseek2" and facts.get("expert_gating_func") == SIGMOID:
        facts.arch = DEEPSEEK_V3
    facts.read.add("expert_gating_func")
    return facts
