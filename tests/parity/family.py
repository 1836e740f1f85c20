"""Family: a tiny Hugging Face config, its architecture in our modules, and the weight names of both.

What the tables of `families/` share: sizes that are all different, a large eps, so that each of them matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.weights.map import WeightMap, Weights
from archcli.modules import Block, Decoder, Group, LayerNorm, Model, Norm, RMSNorm
from importing import imported_file, text_alone

VOCAB, D_MODEL, D_FF, HEADS, KV_HEADS, HEAD_DIM = 53, 32, 40, 4, 2, 12
EPS, THETA, WINDOW = 0.01, 100.0, 5
IMPORTED: Any = None
RMS, LN = RMSNorm(eps=EPS), LayerNorm(eps=EPS)

SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": D_MODEL,
    "intermediate_size": D_FF,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": 64,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}
"""The keys most configs share."""


@dataclass(frozen=True)
class Family:
    """One entry of the parity table.

    `config` is what `AutoConfig.for_model` takes. `spec` left out is what the importer makes of it: both are
    held against the class, whose logits are the truth. `weights` is the table of its names where archcli has
    no importer that states it, `cls` the class that is made of it where that is not the causal language
    model's, `answer` what of its output is compared, `attention` in which form it runs. `untied` gives its
    head a weight of its own, which the class would not. `avoids` is an id that no token has: the class gives
    padding a position of its own; `distinct` that none comes twice in a sequence, as of a choice between
    equals any answer is right. `quiet` scales down the random weights of their names it lists, so that an eps
    nobody can configure is felt. `restretched` marks frequencies that change with the length seen: keys
    cached earlier keep their old angles, so decoding differs from one pass, for them as for us. `in_memory`:
    the names are those of memory alone, which files do not have. `inert` lists mutants that change nothing
    here, each with its reason.
    """

    config: Mapping[str, Any]
    spec: Model = field(default_factory=lambda: IMPORTED)
    weights: Weights | None = None
    cls: str = "AutoModelForCausalLM"
    answer: str = "logits"
    attention: str = "eager"
    untied: bool = False
    avoids: int | None = None
    distinct: bool = False
    quiet: Mapping[str, float] = field(default_factory=dict)
    restretched: bool = False
    in_memory: bool = False
    inert: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Import the config where no architecture is stated, when it is asked for."""
        if self.spec is IMPORTED:
            object.__delattr__(self, "spec")

    def __getattr__(self, name: str) -> Any:
        """The architecture that is not there yet."""
        if name != "spec":
            raise AttributeError(name)
        headed = {"architectures": ["TheirsForCausalLM"], **self.config}
        # towers are compared in test_whole.py
        object.__setattr__(self, name, text_alone(imported_file(headed)))
        return self.spec

    @cached_property
    def map(self) -> WeightMap:
        """Which of our weights each of theirs becomes: as the importer ships it, if there is one."""
        return weight_map(dict(self.config)) if self.weights is None else WeightMap(self.weights)


def rope(theta: float = THETA, **scaling: Any) -> dict[str, Any]:
    """Their rope parameters."""
    return {"rope_type": "default", "rope_theta": theta, **scaling}


def decoder(norm: Norm, *groups: Group, d_model: int = D_MODEL, **options: Any) -> Decoder:
    """A model of the shared sizes."""
    return Decoder(vocab_size=VOCAB, d_model=d_model, norm=norm, groups=groups, **options)


def layers(*blocks: Block, n_layers: int = 2) -> Group:
    """One block repeated, or a pattern of several."""
    return (
        Group(n_layers=n_layers, layer=blocks[0])
        if len(blocks) == 1
        else Group(n_layers=n_layers, pattern=blocks)
    )
