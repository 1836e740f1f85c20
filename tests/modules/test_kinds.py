"""The listed kinds against the classes; a model loads the files of its own kinds and no others."""

import ast
import json
import re
import subprocess
import sys

import pytest

import archcli.modules
import archcli.ops
import house
from archcli.errors import ArchError
from archcli.lazy import listing
from archcli.load.source import load_text
from archcli.modules.spec import kinds
from library import classes, load_every_module
from own_source import parsed

load_every_module()


def test_the_listing_names_every_class_that_has_a_kind():
    # heads of drafts are read, and no YAML names them
    library = [cls for cls in classes() if not cls.__module__.startswith("archcli.wings.serving.")]
    stated = {(cls.family, kinds.kind_of(cls)): cls.__qualname__ for cls in library if kinds.kind_of(cls)}
    listed = {(family, kind): name for family, named in kinds.KINDS.items() for kind, name in named.items()}
    assert listed == stated


@pytest.mark.parametrize("package", [archcli.modules, archcli.ops], ids=lambda package: package.__name__)
def test_every_public_name_is_found_in_its_own_file(package):
    assert package.__all__ == dir(package)
    for file, names in listing(package.__name__)["names"].items():
        for name in names:
            place = package.__name__ + file if file.startswith(".") else file
            assert getattr(package, name).__module__ == place, name


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'Liner'"):
        _ = archcli.ops.Liner


@pytest.mark.long
def test_every_conflict_has_a_code_of_its_own_kind():
    stated = {}
    library = {name: tree for name, tree in parsed("archcli").items() if house.room(name) == "modules"}
    for name, tree in library.items():
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Conflict":
                code = ast.literal_eval(call.args[0])
                assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", code), code
                stated.setdefault(code, []).append(name.rpartition(".")[2])
    assert len(stated) > 50
    assert {code: sorted(files) for code, files in stated.items() if len(files) > 1} == {
        "rotary-dims-even": ["latent", "position", "position"]
    }


DECODER = """
vocab_size: 8
d_model: 8
norm: rmsnorm
groups:
  - n_layers: 1
    layer: {kind: pre_norm, attention: {kind: gqa, n_heads: 8, n_kv_heads: 3}, ffn: {kind: glu, d_ff: 8}}
"""


def test_a_problem_of_a_yaml_carries_the_code_of_its_conflict():
    with pytest.raises(ArchError) as caught:
        load_text(DECODER, "f")
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [
        ("kv-heads-divide-heads", "groups.0.layer.attention.n_kv_heads")
    ]


# Every model needs these files of modules and operations; the others are those of Llama's own kinds.
EVERY_MODEL = """
modules: attention attention.base attention.mixer blocks blocks.block ends ends.embedding models
    models.layers models.model models.stack networks networks.norm positions positions.position
    positions.rope_scaling spec spec.arguments spec.base spec.calls spec.context spec.fields spec.forms
    spec.kinds spec.request spec.trace spec.unread spec.values stored stored.dtypes stored.formats
    stored.mixes stored.quantization
ops: attention attention.mask attention.rotary base dense layout pointwise
"""
OF_LLAMA = """
modules: attention.grouped models.decoder networks.activation networks.ffn
ops: attention.attend attention.attend_cost normalize
"""
COUNT = """
import json, sys, archcli
for count in (archcli.count_params, archcli.count_flops):  # the cache is compared with that of other kinds
    count("llama-3.1-8b")
print(json.dumps(sorted(sys.modules)))
"""


def files(text):
    folders = re.findall(r"(\w+):([\w. \n]+?)(?=\n\w+:|\Z)", text)
    return {f"archcli.{folder}.{name}" for folder, names in folders for name in names.split()}


@pytest.mark.long
def test_a_llama_loads_no_file_of_a_kind_it_does_not_use():
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, check=True, timeout=300)
    loaded = set(json.loads(done.stdout))
    assert {name for name in loaded if name.startswith(("archcli.modules.", "archcli.ops."))} == (
        files(EVERY_MODEL) | files(OF_LLAMA)
    )
    assert not loaded & {"torch", "pydantic", "typer", "rich", "sympy", "numpy", "importlib.metadata"}
