"""Run the command line in this process: what it prints, and its exit code."""

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from archcli.cli import main
from checking import BROKEN
from conforming import conforms
from tiny_model import TINY


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch, capsys):
    """cli("params", "gpt2") as a user would type it, standard output being no terminal."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["archcli", *map(str, args)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        done = Done(code, *capsys.readouterr())
        conforms(args, done.out)
        return done

    return run


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A file with four mistakes, in a folder of its own that is the current one."""
    monkeypatch.chdir(tmp_path)
    Path("broken.yaml").write_text(BROKEN)
    return "broken.yaml"


@pytest.fixture
def folder(tmp_path):
    """folder("gpt2"): the parity table's model as Hugging Face saves it."""
    from saved import saved  # brings torch, which most commands do without

    return lambda name, **options: saved(name, tmp_path / name, **options)


@pytest.fixture
def tiny(tmp_path):
    """A file with the dense model of two layers."""
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


LLAMA = """
vocab_size: 61
d_model: 32
max_seq_len: 64
norm: {kind: rmsnorm, eps: 1e-5}
groups:
  - n_layers: 2
    layer:
      kind: pre_norm
      attention: {kind: gqa, n_heads: 4, n_kv_heads: 2, head_dim: 8, position: {kind: rope}}
      ffn: {kind: glu, activation: silu, d_ff: 48}
"""


@pytest.fixture
def llama(tmp_path):
    path = tmp_path / "llama.yaml"
    path.write_text(LLAMA)
    return path
