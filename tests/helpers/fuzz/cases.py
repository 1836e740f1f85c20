"""Cases of the fuzzer: a damaged file, or a damaged setting, and the command that is to answer about it."""

import json
import struct
from pathlib import Path
from random import Random
from typing import NamedTuple

from archcli.load.presets import preset_text, presets
from archcli.load.yaml.nodes import plain
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import text_of
from fuzz.mutations import damaged_bytes, damaged_text, damaged_tree, dumped, odd
from gguf_files.file import ARRAY, STRING, U32, array, gguf
from gguf_files.tiny import LLAMA, TENSORS

ROOT = Path(__file__).parents[3]
CONFIGS = sorted((ROOT / "tests/oracle/configs").glob("*.json"))
SAVED = ROOT / "docs/pictures/profile.json"
QUESTIONS = [
    ["params"], ["params", "--dtype", "q8_0"], ["flops"], ["flops", "--phase", "train"],
    ["kvcache", "-c", "1M"],
    ["flops", "--phase", "decode", "--past", "32000"], ["kvcache", "--memory", "24GB"], ["show"], ["check"],
]  # fmt: skip
FIELDS = [
    "d_model",
    "n_layers",
    "vocab_size",
    "max_seq_len",
    "d_ff",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "window",
    "norm",
    "embedding",
    "groups",
    "groups.0.layer",
    "groups.0.n_layers",
    "layer.attention",
    "attention.position",
    "ffn",
    "ffn.activation",
    "theta",
    "eps",
    "quantization",
    "lora",
    "name",
    "released",
    "head",
    "published",
    "kind",
    "training",
]
VALUES = [
    "8K",
    "1M",
    "1e9",
    "1e30",
    "-1",
    "0",
    "1",
    "7",
    "1.5",
    ".nan",
    ".inf",
    "null",
    "{}",
    "[]",
    "{kind:_mla}",
    "mlp",
    "{bits:_4}",
    "{bits:_4,_group_size:_32}",
    "{rank:_8,_targets:_[q]}",
    "'",
    "*a",
    "[[[[",
    "true",
    "x:_y",
    "\x07",
]


class FuzzCase(NamedTuple):
    """A command line, and variables of the environment that it runs in."""

    arguments: list[str]
    environment: dict[str, str]


def yaml(random, folder):
    path = folder / "model.yaml"
    text = preset_text(random.choice(presets()))
    if random.random() < 0.6:
        tree = plain(parse(text_of(text, "f")).root)
        text = dumped(random, damaged_tree(random, tree))
    else:
        text = damaged_text(random, text)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return asked(random, path)


def config(random, folder):
    path = folder / "config.json"
    tree = json.loads(random.choice(CONFIGS).read_text())
    path.write_bytes(dumped(random, damaged_tree(random, tree)).encode("utf-8", "surrogatepass"))
    return asked(random, path)


def typed(value):
    """A value of metadata as a GGUF file may hold it; text for what it cannot."""
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return (12, value)
    if isinstance(value, int):
        return (10, value % 2**64)
    if isinstance(value, list) and value and all(type(item) is int and 0 <= item < 2**32 for item in value):
        return array(U32, value)
    return (STRING, str(value).encode("utf-8", "replace")[:300])


def gguf_file(random, folder):
    metadata, tensors = dict(LLAMA), dict(TENSORS) if random.random() < 0.5 else {}
    for _ in range(random.randint(0, 3)):
        key = random.choice(list(metadata))
        metadata[key] = typed(odd(random))
    if random.random() < 0.3:
        metadata["general.architecture"] = random.choice(
            ["gemma2", "olmo2", "chatglm", "deepseek2", "t5", "mpt"]
        )
        metadata |= {
            key.replace("llama", metadata["general.architecture"]): value for key, value in LLAMA.items()
        } | {"general.architecture": metadata["general.architecture"]}
    if random.random() < 0.3:
        metadata["x.list"] = (ARRAY, struct.pack("<IQ", random.randrange(14), random.choice([0, 3, 2**40])))
    for _ in range(random.choice([0, 0, 0, 1, 2])):
        tensors[random.choice([*TENSORS, "blk.9.x.weight"])] = (random.choice([1, 16, 2**40]),)
    data = gguf(metadata, tensors)
    path = folder / "model.gguf"
    path.write_bytes(damaged_bytes(random, data) if random.random() < 0.3 else data)
    return asked(random, path)


def safetensors(random, folder):
    offset, header = 0, {"__metadata__": {"format": "pt"}}
    for i in range(random.randint(1, 4)):
        for name, shape in (("attn.c_attn.weight", [768, 2304]), ("ln_1.weight", [768])):
            size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
            entry = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
            header[f"transformer.h.{i}.{name}"], offset = entry, offset + size
    text = dumped(random, damaged_tree(random, header)).encode("utf-8", "surrogatepass")
    length = len(text) if random.random() < 0.9 else random.choice([0, 1, len(text) - 1, 2**31, 2**63])
    path = folder / "model.safetensors"
    with path.open("wb") as file:
        data = length.to_bytes(8, "little") + text
        file.write(damaged_bytes(random, data) if random.random() < 0.2 else data)
        file.truncate(max(file.tell(), offset + 8 + len(text)))
    return ["params", "gpt2", "--against", str(folder if random.random() < 0.3 else path), "--json"]


def saved(random, folder):
    path = folder / "profile.json"
    tree = damaged_tree(random, json.loads(SAVED.read_text()))
    path.write_bytes(dumped(random, tree).encode("utf-8", "surrogatepass"))
    return ["plot", str(path), "-o", str(folder / random.choice(["p.svg", "p.html"]))]


def override(random, folder):
    settings = []
    for _ in range(random.choice([1, 1, 2])):
        value = random.choice(VALUES).replace("_", " ") if random.random() < 0.4 else str(odd(random))
        settings += [
            "--set",
            f"{random.choice(FIELDS)}={value}".replace("\0", "").encode("utf-8", "replace").decode(),
        ]
    return [*asked(random, random.choice(presets())), *settings]


def asked(random, model):
    """A question about a model; figures as JSON."""
    verb, *options = random.choice(QUESTIONS)
    return [verb, str(model), *options, "--json"]


KINDS = {
    "yaml": yaml,
    "config": config,
    "gguf": gguf_file,
    "safetensors": safetensors,
    "saved": saved,
    "set": override,
}


def case(kind, seed, folder):
    """Write the files of a case into an empty folder; the command that asks about them."""
    return KINDS[kind](Random(f"{kind} {seed}"), folder)  # noqa: S311 - a case is told by its seed
