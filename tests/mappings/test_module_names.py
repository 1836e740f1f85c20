"""A name in a quantization_config or an adapter means what it means to the class: bytes are its matrices'."""

import json
from functools import cache

import pytest

from archcli.load.source import load_text
from archcli.measure.params import count_params
from class_matrices import matrices, of_family, step_names
from named_methods import METHODS, stored_bytes
from names_on_purpose import KEPT, NAMES
from parity.families import FAMILIES

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

NONE = "no_such_module"
DECODER = "AutoModelForCausalLM"
CASES = [
    (name, method)
    for name, family in FAMILIES.items()
    for method in METHODS
    if method != "mlx" or family.cls == DECODER
]
"""Every family of the parity table and every method, of MLX decoders alone, which it has."""


def counted(config):
    return count_params(load_text(json.dumps(config), "f").model).totals["bytes"]


@cache
def of_class(name):
    """The config of a family, its bytes in bf16, its class's matrices, and the names of patterns."""
    family = FAMILIES[name]
    model = of_family(family)
    # a file names the class, not how it was found
    architecture = "TheirsForCausalLM" if family.cls == DECODER else type(model).__name__
    config = {"architectures": [architecture], **family.config}
    kept, _ = KEPT.get(name, (None, ""))
    held = [it for it in matrices(model) if kept is None or not it.ends(kept)]
    return config, counted(config), held, step_names(held)


def off(name, method, steps):
    """The names that are counted otherwise than the class's matrices are: {name: (counted, expected)}."""
    config, plain, held, _ = of_class(name)
    named = {step: [it for it in held if it.has(step)] for step in steps}
    stated = {step: METHODS[method].config(step, named[step]) for step in steps}
    found = {step: counted({**config, "quantization_config": stated[step]}) for step in steps}
    expected = {step: stored_bytes(plain, held, method, step) for step in steps}
    return {step: (found[step], expected[step]) for step in steps if found[step] != expected[step]}


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "method"), CASES)
def test_each_leaf_and_parent_named_by_itself(name, method):
    left_out = {**NAMES.get(name, {}), **NAMES.get(f"{name}-{method}", {})}
    steps = [step for step in (*of_class(name)[3], NONE) if step not in left_out]
    assert off(name, method, steps) == {}
