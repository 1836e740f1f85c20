"""`archcli export` of random architectures: the class is the model, or a line says what it has not."""

import json
from random import Random

import pytest

import archcli
import their_class
from archcli.errors import ArchError
from archcli.load.foreign.class_names import preset_types
from archcli.modules.spec.base import settings

PLAIN = (
    *(
        "bert",
        "bloom",
        "cohere",
        "falcon",
        "gemma",
        "gpt2",
        "gpt_neox",
        "granite",
        "llama",
        "mamba",
        "mistral",
    ),
    *(
        "mixtral",
        "olmo",
        "olmo2",
        "opt",
        "phi",
        "phi3",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "smollm3",
    ),
    *("stablelm", "starcoder2", "t5"),
)
"""Types whose files are found in seconds."""
PRESETS = [name for name, kind in sorted(preset_types().items()) if kind in PLAIN]
VALUES = {
    "n_layers": (1, 2, 3, 7, 12),
    "d_ff": (64, 100, 1536, 11008),
    "vocab_size": (257, 32000, 50257),
    "max_seq_len": (100, 2048, 8192),
    "window": (3, 64, 1000),
    "n_experts": (8, 16, 60),
    "top_k": (1, 2, 3),
    "n_kv_heads": (1, 2, 4, 8),
    "head_dim": (32, 64, 96),
    "activation": ("silu", "gelu", "gelu_tanh", "relu", "relu2"),
    "theta": (10000, 500000, 1000000),
    "eps": (1e-5, 1e-6),
}
"""Fields that are drawn anew, and what they become; flags are turned round."""


def drawn(seed):
    """A preset with one to three fields changed so that it still loads, its class, and what was changed."""
    random = Random(seed)  # noqa: S311 it draws models
    source = random.choice(PRESETS)
    base = archcli.load(source)
    fields = [
        (path, value)
        for path, value in settings(base)
        if path.rpartition(".")[2] in VALUES or isinstance(value, bool)
    ]
    while True:
        texts = [changed(random, *field) for field in random.sample(fields, random.randint(1, 3))]
        try:
            model = archcli.load(source, texts).replace(towers=(), beside=())
            return model, preset_types()[source], (source, *texts)
        except ArchError:
            continue


def changed(random, path, value):
    """What --set is told for a field."""
    if isinstance(value, bool):
        return f"{path}={str(not value).lower()}"
    return f"{path}={random.choice(VALUES[path.rpartition('.')[2]])}"


def outcome(model, model_type):
    """The parameters of the class for the exported file, or the refusal."""
    try:
        config = json.loads(archcli.export(model, model_type=model_type).text)
    except ArchError as error:
        return error.problems[0]
    return their_class.params(their_class.built(config))


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(100))
def test_the_class_is_the_model_or_the_field_that_it_has_not_is_named(seed):
    model, model_type, changes = drawn(seed)
    answer = outcome(model, model_type)
    if isinstance(answer, int):
        assert answer == archcli.count_params(model).totals["params"], changes
    else:
        assert "no config.json was found whose import is" in answer.what, changes
        assert " differs in " in answer.hint, changes
