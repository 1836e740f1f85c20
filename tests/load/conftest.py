"""What the loader's tests share: a small model, and a way to see it refused."""

import re
import time
from pathlib import Path

import pytest

from archcli.errors import ArchError
from archcli.load.source import load, load_text
from gguf_files.file import gguf
from gguf_files.tiny import TENSORS

PATIENCE_S = 1.0


@pytest.fixture
def tiny():
    """The YAML of a small model."""
    return (Path(__file__).parent / "tiny.yaml").read_text()


@pytest.fixture
def refused():
    """The answers to a text that cannot be loaded, without the file's name: refused(text, *overrides)."""

    def answers(text, *overrides):
        start = time.process_time()
        with pytest.raises(ArchError) as caught:
            load_text(text, "f", overrides)
        assert time.process_time() - start < PATIENCE_S
        return [re.sub(r"^f:(?=\d)", "", str(problem)) for problem in caught.value.problems]

    return answers


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, in a folder of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def asked(tmp_path):
    """What is loaded from a file of these bytes, or of these metadata and tensors."""

    def model(data, tensors=None, name="f.gguf", overrides=()):
        path = tmp_path / name
        path.write_bytes(
            data if isinstance(data, bytes) else gguf(data, TENSORS if tensors is None else tensors)
        )
        return load(str(path), overrides)

    return model


@pytest.fixture
def answer_of(asked):
    """The one problem that such a file has, from its name on."""

    def said(*args, **options):
        with pytest.raises(ArchError) as caught:
            asked(*args, **options)
        [problem] = caught.value.problems
        return str(problem).rpartition("/")[2]

    return said
