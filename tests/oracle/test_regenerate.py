"""The recorded figures can be had again.

The script still gets them from the transformers that is installed.
"""

import json

import pytest

from oracle.regenerate import CONFIGS, FIGURES, figures


# transposed matrices and learned positions; windows; experts; an encoder; two halves, with features for
# tokens
@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["gpt2", "gemma-2-9b", "mixtral-8x7b", "bert-base-uncased", "whisper-small"])
def test_gives_what_is_recorded(name):
    settings = json.loads((CONFIGS / f"{name}.json").read_text())
    assert figures(settings) == json.loads(FIGURES.read_text())["models"][name]
