"""Models of the fuzzer's valid questions: presets, configs, random architectures, changed by --set."""

import json
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings

import archcli
from archcli.errors import ArchError
from archcli.load.presets import presets
from archcli.load.spec.written import to_yaml
from archcli.modules import Mixer
from archcli.modules import Model as AnyModel
from archcli.modules.spec.base import find
from archcli.modules.spec.base import settings as settings_of
from combinations.mixers import BIASED, ENCODING, MIXERS, encoder
from combinations.mixers import model as decoder
from drawing import DRAWS, OPTIONS, draw
from fuzz.cases import CONFIGS
from readings.encoders import MODELS

LAYERS = (1, 2, 3, 5, 7, 12, 13, 31, 61, 97)
RESIZED = {
    "n_layers": LAYERS,
    "d_ff": (1, 64, 100, 1000, 1536, "3K", 11008, 30001),
    "vocab_size": (2, 3, 257, 32000, 50257, "128K", 200003),
    "max_seq_len": (16, 100, 2048, "8K", "1M"),
    "window": (1, 3, 64, 1000, "4K"),
    "n_experts": (8, 16, 60, 384),
    "n_heads": (1, 3, 16, 40, 96),
    "head_dim": (8, 24, 64, 80, 256),
}
"""Sizes that --set changes, and what they become."""
ADDED = (
    "quantization={bits: 4, group_size: 128, zero_bits: 4}",
    "quantization={bits: 4, group_size: 64, scale_bits: 8, second_group_size: 256}",
    "quantization={bits: 8}",
    "quantization={bits: 3, group_size: 32}",
    "quantization={bits: 4, group_size: 32, rules: [{match: embedding, bits: 8}]}",
    "quantization={bits: 4, group_size: 128, rules: [{match: embedding, bits: dtype}]}",
    "quantization=null",
    "lora={rank: 8, targets: [all_linear]}",
    "lora={rank: 16, alpha: 32, targets: [o], dropout: 0.1}",
    "lora={rank: 1, targets: [down, o]}",
    "embedding.tied=true",
    "embedding.tied=false",
    "final_norm=false",
    "loss={z_loss: 0.0001}",
    "norm=layernorm",
    "mtp=null",
)
"""Settings beyond sizes that --set makes."""


class DrawnModel(NamedTuple):
    """The arguments that name a model on a command line, and the model."""

    arguments: tuple[str, ...]
    model: AnyModel

    def has(self, name):
        """Whether any module has a setting of this name."""
        return any(path.rpartition(".")[2] == name for path, value in settings_of(self.model) if value)

    def sizes(self):
        """The paths and values of whole numbers that a sweep may vary."""
        return [
            (path, value)
            for path, value in settings_of(self.model)
            if path.rpartition(".")[2] in {*RESIZED, "d_model", "n_kv_heads", "top_k"} and type(value) is int
        ]

    def tokens(self, random, least=1):
        """A length that the model's table of positions, where it has one, is long enough for."""
        lengths = (
            1,
            2,
            3,
            7,
            8,
            17,
            64,
            100,
            127,
            333,
            512,
            "1k",
            "1K",
            2047,
            2048,
            4096,
            "8K",
            "32K",
            100000,
        )
        most = self.model.max_seq_len or 4096
        return random.choice([n for n in lengths if least <= number(n) <= max(most, least)] or [least])


def number(text):
    """A length as a whole number."""
    return archcli.units.parse_count(str(text))


def hypothetical(random, folder):
    """An architecture of the hypothesis strategies, every size of which is tiny."""
    models = []

    @seed(random.randrange(10**6))
    @settings(
        max_examples=3,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(MODELS)
    def keep(model):
        models.append(model)

    keep()
    path = folder / "drawn.yaml"
    path.write_text(to_yaml(models[-1]))
    return str(path)


def mixed(random, folder):
    """A decoder or encoder of one to three kinds of mixers in turn."""
    path, many = folder / "mixed.yaml", random.choice([1, 1, 2, 3])
    if random.random() < 0.15:
        path.write_text(encoder(*random.sample(list(ENCODING), min(many, 2))))
    else:
        kinds = random.sample(list(MIXERS), many)
        bias = random.choice(list(BIASED)) if {*kinds} <= {"mha", "gqa", "mqa"} else "none"
        path.write_text(decoder(*kinds, bias=bias, n_layers=random.choice([None, many, *LAYERS[:6]])))
    return str(path)


def drawn_config(random, folder):
    """A tiny config.json of a Llama-like family."""
    path = folder / "config.json"
    family = random.choice(list(OPTIONS))
    path.write_text(json.dumps({"model_type": family, **draw(family, random.randrange(DRAWS))}))
    return str(path)


SOURCES = (
    *(lambda random, _: random.choice(presets()),) * 5,
    *(lambda random, _: str(random.choice(CONFIGS)),) * 2,
    drawn_config,
    mixed,
    mixed,
    hypothetical,
)


def changes(random, model):
    """Up to three settings for --set, which may not fit together."""
    sizes = [path for path, value in settings_of(model) if value and path.rpartition(".")[2] in RESIZED]
    texts = []
    for _ in range(random.choice([0, 0, 1, 1, 2, 3])):
        if sizes and random.random() < 0.6:
            path = random.choice(sizes)
            texts.append(f"{path}={random.choice(RESIZED[path.rpartition('.')[2]])}")
        else:
            texts.append(random.choice(ADDED))
    return list(dict.fromkeys(texts))


def drawn_model(random, folder):
    """A model; settings that archcli refuses are drawn again a few times, then left out."""
    source = random.choice(SOURCES)(random, folder)
    base = archcli.load(source)
    for _ in range(4):
        texts = changes(random, base)
        try:
            model = archcli.load(source, texts)
        except ArchError:
            continue
        return DrawnModel((source, *(word for text in texts for word in ("--set", text))), model)
    return DrawnModel((source,), base)


def has_softmax(model):
    """Whether a mixer of the model is softmax attention."""
    return any(mixer.facts(model.d_model).has_scores for _, mixer in find(model, Mixer))
