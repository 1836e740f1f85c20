"""What the tests of the hub share.

A tiny config.json, a cache laid out as the library lays it out, and how a model is refused.
"""

import json

import pytest

from archcli.errors import ArchError
from archcli.load.source import load

SHA, OLDER = "5f0b02c75b57c5855da9ae460ce51323ea669d8a", "0" * 39 + "1"
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
}
PARAMS = 2 * 50 * 16 + 16 + 3 * (2 * 16 + 2 * 16 * 16 + 2 * 8 * 16 + 3 * 24 * 16)


def cached(folder, repo, commit, content, ref="main"):
    """A repository in a cache, laid out as the library does."""
    home = folder / f"models--{repo.replace('/', '--')}"
    snapshot = home / "snapshots" / commit
    snapshot.mkdir(parents=True, exist_ok=True)
    (snapshot / "config.json").write_text(
        content if isinstance(content, str) else json.dumps(content, indent=2)
    )
    if ref:
        (home / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (home / "refs" / ref).write_text(commit)
    return snapshot / "config.json"


def answer(model):
    with pytest.raises(ArchError) as caught:
        load(model)
    return str(caught.value)
