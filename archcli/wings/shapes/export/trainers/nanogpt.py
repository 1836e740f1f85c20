"""nanoGPT's config file: names of its train.py, for models of GPT-2's kind."""

from __future__ import annotations

from archcli.wings.shapes.export.settings import Leaves
from archcli.wings.shapes.export.trainers.table import NOTE, Row, TrainingProgram

GELU = "nanoGPT has the exact gelu where the model has gelu_tanh"
VOCAB = "train.py takes vocab_size from the dataset's meta.pkl, and is 50304 where that has none"
USUAL_VOCAB = 50304
BIAS: Row = {True: {"bias": True}, False: {"bias": False}}


def _vocab(size: int, at: Leaves) -> Leaves:
    return {"vocab_size": size} if size == USUAL_VOCAB else {"vocab_size": size, NOTE: VOCAB}


def _width(width: int, at: Leaves) -> Leaves | None:
    return {"n_embd": width * at["layer.attention.n_heads"]}


def _hidden(width: int, at: Leaves) -> Leaves | None:
    return None if width % 4 else {"n_embd": width // 4}


def _value_width(width: int | None, at: Leaves) -> Leaves | None:
    return {} if width in {None, at["layer.attention.head_dim"]} else None


ROWS: dict[str, Row] = {
    "vocab_size": _vocab,
    "d_model": "n_embd",
    "max_seq_len": "block_size",
    "embedding.tied": {True: {}},
    "embedding.position.kind": {"learned": {}},
    "embedding.position.max_seq_len": "block_size",
    "embedding.dropout": "dropout",
    "*norm.kind": {"layernorm": {}},
    "*norm.eps": {1e-5: {}},
    "*norm.bias": BIAS,
    "layer.kind": {"pre_norm": {}},
    "layer.dropout": "dropout",
    "layer.attention.kind": {"mha": {}},
    "layer.attention.n_heads": "n_head",
    "layer.attention.head_dim": _width,
    "layer.attention.v_head_dim": _value_width,
    "layer.attention.bias": BIAS,
    "layer.attention.dropout": "dropout",
    "layer.attention.position.kind": {"none": {}},
    "layer.ffn.kind": {"mlp": {}},
    "layer.ffn.activation.kind": {"gelu": {}, "gelu_tanh": {NOTE: GELU}},
    "layer.ffn.d_ff": _hidden,
    "layer.ffn.bias": BIAS,
}


def _finish(keys: Leaves) -> Leaves | str:
    keys["n_layer"] = keys.pop("n_layers")
    return keys


def _text(name: str, keys: Leaves) -> str:
    return "".join(f"{key} = {value!r}\n" for key, value in keys.items())


TRAINER = TrainingProgram("nanoGPT", {}, ROWS, _finish, _text)
