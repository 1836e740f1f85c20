"""A name in a quantization_config or an adapter means what it means to the class: bytes are its matrices'."""

import json
from functools import cache

import pytest

from archcli.load.source import load_text
from archcli.measure.params import count_params
from class_matrices import METHODS, matrices, numbers, of_family, one_matrix_each, step_names, stored_bytes
from parity.families import FAMILIES

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

NONE = "no_such_module"
FIRST = {family.config["model_type"]: name for name, family in reversed(FAMILIES.items())}
TRIED = (
    "qwen3_5_text",
    "qwen3_5_moe_text",
    "qwen3_next",
    "olmo_hybrid",
    "bailing_hybrid",
    "kimi_linear",
    "nemotron_h",
    "gemma4_text",
    "deepseek_v3",
    "mixtral",
    "llama",
    "phi3",
    "glm4",
    "gpt2",
    "qwen3_moe",
    "falcon_h1",
    "bamba",
    "lfm2",
    "olmo2",
    "cohere2",
)
"""Types of the families that are tried: hybrids, fused matrices, experts, and plain ones."""
CASES = [(FIRST[kind], method) for kind in TRIED for method in METHODS]


def counted(config):
    return count_params(load_text(json.dumps(config), "f").model).totals["bytes"]


@cache
def of_class(name):
    """The config of a family, its class's numbers and matrices, and the names that patterns can have."""
    family = FAMILIES[name]
    model = of_family(family)
    held = [*matrices(model)]
    if not any("#" in stored and "expert" in stored for stored in family.map.rules):
        held = [*one_matrix_each(held)]
    return {"architectures": ["TheirsForCausalLM"], **family.config}, numbers(model), held, step_names(held)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "method"), CASES)
def test_each_leaf_and_parent_named_by_itself(name, method):
    config, whole, held, names = of_class(name)
    config_of = METHODS[method][0]
    expected = {step: stored_bytes(whole, held, method, step) for step in (*names, NONE)}
    found = {step: counted({**config, "quantization_config": config_of(step)}) for step in expected}
    assert found == expected
