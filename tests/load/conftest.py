"""What the loader's tests share: a small model, and a way to see it refused."""

import re
import time
from pathlib import Path

import pytest

from archcli.errors import ArchError
from archcli.load.source import load_text

PATIENCE_S = 1.0


@pytest.fixture
def tiny():
    """The YAML of a small model."""
    return (Path(__file__).parent / "tiny.yaml").read_text()


@pytest.fixture
def refused():
    """The answers to a text that cannot be loaded, without the file's name: refused(text, *overrides)."""

    def answers(text, *overrides):
        start = time.perf_counter()
        with pytest.raises(ArchError) as caught:
            load_text(text, "f", overrides)
        assert time.perf_counter() - start < PATIENCE_S
        return [re.sub(r"^f:(?=\d)", "", str(problem)) for problem in caught.value.problems]

    return answers
