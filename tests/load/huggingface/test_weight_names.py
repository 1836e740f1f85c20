"""Every family's table of weight names.

Well formed, complete for what the importer builds, and right for names as real files hold them.

Logits are compared in tests/parity and tests/commands; here no tensor has values.
"""

from copy import deepcopy

import pytest
import torch
import transformers

from archcli.errors import ArchError
from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.registry import families
from archcli.load.huggingface.weights.map import Auxiliary, WeightMap, parts_of
from archcli.load.huggingface.weights.names import UNREAD
from archcli.measure.weights.stored_bytes import tensors
from archcli.wings.running.weights.checkpoint import compare
from drawing import cases
from import_variants import VARIANTS
from importing import imported_file
from table import every_row, sampled_rows

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

CAUSAL = {
    "t5": "T5ForConditionalGeneration",
    "bert": "BertModel",
    "marian": "MarianMTModel",
    "whisper": "WhisperForConditionalGeneration",
}
LIGHTNING = {"attn_type_list": [*31 * [0], 1]}
REQUIRED = {"minimax_text_01": LIGHTNING, "minimax_m1": LIGHTNING}
"""What a file must say before its weights have names."""

CONFIGS = {
    **{
        f"{kind}-{name}": {**config, "model_type": kind}
        for kind, name, config in cases()
        if name in {"0", "1"}
    },
    **{
        f"{kind}-{name}": {**config, "model_type": kind}
        for kind, options in VARIANTS.items()
        for name, config in options.items()
    },
}


@sampled_rows("kind", families(), 4)
def test_a_family_states_its_names(kind):
    named = {"model_type": kind, "architectures": [CAUSAL.get(kind, "ForCausalLM")]}
    rules = weight_map({**REQUIRED.get(kind, {}), **named}).rules
    assert rules
    for name, rule in rules.items():
        if not isinstance(rule, Auxiliary):
            assert {template.count("*") for template in parts_of(rule).ours} == {name.count("*")}, name
            assert name.count("#") <= 1


def theirs(config):
    """Their class of this config, which is the one a file of it names."""
    cls = getattr(
        transformers,
        (config.get("architectures") or [CAUSAL.get(config["model_type"], "AutoModelForCausalLM")])[0],
    )
    own = transformers.AutoConfig.for_model(**deepcopy(config))
    with torch.device("meta"):
        model = cls.from_config(own) if cls.__name__.startswith("Auto") else cls(own)
    return {"architectures": [type(model).__name__], **config}, model


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CONFIGS)
def test_what_their_class_holds_is_what_ours_needs(name):
    config, model = theirs(CONFIGS[name])
    held = {
        key: tuple(tensor.shape)
        for key, tensor in [*model.named_parameters(), *model.named_buffers()]
        if key in model.state_dict()
    }
    found = compare(imported_file(config), held, weight_map(config))
    assert [line for line in found.lines if line.status not in {"same", "buffer", "extra"}] == []
    assert {line.reason for line in found.lines if line.status == "extra"} <= {
        "empty tensor",
        "sinusoid: computed, not trained",
        UNREAD,
    }


@sampled_rows("name", CONFIGS, 4)
def test_every_weight_of_ours_has_a_name_of_theirs(name):
    config = {"architectures": [CAUSAL.get(CONFIGS[name]["model_type"], "ForCausalLM")], **CONFIGS[name]}
    weights = weight_map(config)
    for ours in [key for part in tensors(imported_file(config)) for key in part]:
        place = weights.find(
            weights.checkpoint_name(ours)
            .replace(".experts.*.", ".experts.0.")
            .replace(".norms.*.", ".norms.0.")
        )
        assert ours in place.names


def test_a_model_type_of_no_family_is_refused():
    with pytest.raises(ArchError, match="not supported"):
        weight_map({"model_type": "lama"})
    with pytest.raises(ArchError, match="mapping"):
        weight_map([])


def test_two_rules_for_one_name_are_a_fault():
    with pytest.raises(KeyError, match="has 2 rules"):
        WeightMap({"a.*.weight": "x.*.weight", "a.b.*": "y.b.*"}).find("a.b.weight")


@every_row(
    "name",
    ["a.*.weight", "a.#.weight", "a.**", "*", "a." + 9 * "9" + ".weight", "a.²." + "weight", 10_000 * "a."],
)
def test_names_that_look_like_patterns_are_names(name):
    found = WeightMap({"a.#.weight": "x.weight", "b.*.weight": "y.*.weight", "c.**": Auxiliary("why")}).find(
        name
    )
    assert found is None
