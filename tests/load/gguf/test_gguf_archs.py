"""Every architecture of GGUF files.

A tiny model of transformers, stored as llama.cpp stores it, is the model that its config.json is.
"""

import json
from copy import deepcopy
from pathlib import Path

import pytest
import torch
import transformers

from archcli.errors import ArchError
from archcli.load.gguf.config import config_of
from archcli.load.gguf.facts import facts_of
from archcli.load.gguf.families import ARCHS
from archcli.load.gguf.header import read_whole
from archcli.load.gguf.tensors import weights_of
from archcli.load.source import load, load_text
from gguf_files import experts, indexed, llamas, others
from gguf_files.file import gguf
from gguf_files.stored import stored

STORED = {**llamas.STORED, **others.STORED, **experts.STORED, **indexed.STORED}

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend


def made(entry):
    """The transformers model, on meta."""
    config = transformers.AutoConfig.for_model(**deepcopy(entry.config))
    with torch.device("meta"):
        return getattr(transformers, entry.cls).from_config(config)


def weights(model):
    """Shape of every parameter, tied ones once, and of the router's biases."""
    buffers = {name: b for name, b in model.named_buffers() if name.endswith("e_score_correction_bias")}
    return {name: tuple(w.shape) for name, w in {**dict(model.named_parameters()), **buffers}.items()}


def made_of(entry, shapes):
    """The tensors of the file that are parameters of the model."""
    return [
        name for name in stored(entry, shapes)[1] if name not in entry.extra and "exp_probs_b" not in name
    ]


def transposed(entry, name, shape):
    """GPT-2's Conv1D and stacked experts of some classes are [in, out]; llama.cpp turns them."""
    turned = (
        ".c_" in name
        if entry.arch == "gpt2"
        else entry.arch in ("llama4", "gpt-oss") and name.endswith("_proj")
    )
    return (*shape[:-2], shape[-1], shape[-2]) if turned and len(shape) > 1 else shape


@pytest.fixture
def file(tmp_path):
    def write(metadata, tensors, name="tiny.gguf", **more):
        path = tmp_path / name
        path.write_bytes(gguf(metadata, tensors, **more))
        return path

    return write


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("entry", STORED.values(), ids=STORED)
def test_a_stored_model_is_the_model_of_its_config(entry, file):
    model = made(entry)
    shapes = {name: transposed(entry, name, shape) for name, shape in weights(model).items()}
    loaded = load(str(file(*stored(entry, shapes))))
    config = {"architectures": [type(model).__name__], **entry.config}
    stated = load_text(
        json.dumps(
            {
                key: value
                for key, value in config.items()
                if value is not None or key in ("sliding_window", "q_lora_rank")
            }
        ),
        "f.json",
    )
    expected = stated.model.replace(name="tiny")
    if entry.arch == "bert":
        expected = expected.replace(pooler=False)
    assert loaded.model == expected
    assert (
        f"all {len(made_of(entry, shapes))} weights that the file lists were compared in name and shape"
        in loaded.notes
    )
    assert not [note for note in loaded.notes if "not understood" in note]


def test_every_architecture_is_tried():
    converted = json.loads((Path(__file__).parent / "converted.json").read_text())
    tried = {entry["metadata"]["general.architecture"] for entry in converted.values()}
    # Step 3.5's class has no head, and its files have a test of their own
    assert tried | {entry.arch for entry in STORED.values()} | {"step35"} == set(ARCHS)


# our path: what of a file of DeepSeek-V2 it derives from
DERIVED = {
    "groups.0.layer.attention.qk_rope_head_dim": "deepseek2.rope.dimension_count",
    "groups.0.layer.attention.qk_nope_head_dim": "deepseek2.attention.key_length_mla",
    "groups.0.layer.attention.v_head_dim": "deepseek2.attention.value_length_mla",
}


@pytest.mark.parametrize(("path", "key"), DERIVED.items())
def test_a_derived_setting_has_the_place_of_what_it_derives_from(path, key, file):
    metadata, _ = stored(STORED["deepseek2"], {})
    assert load(str(file(metadata, {}))).mark(path).text == key


def test_layers_that_share_an_index_are_refused(file):
    """GLM's later models: a layer without an indexer reads the keys that an earlier one has chosen."""
    entry = STORED["glm-dsa"]
    shapes = {name: tuple(weight.shape) for name, weight in made(entry).state_dict().items()}
    metadata, tensors = stored(entry, shapes)
    kept = {name: shape for name, shape in tensors.items() if not name.startswith("blk.1.indexer.")}
    layers = metadata["glm-dsa.block_count"]
    with pytest.raises(ArchError, match=f"{layers - 1} of {layers} layers have an indexer"):
        load(str(file(metadata, kept)))


def test_the_two_norms_of_falcon_40b_are_those_of_llama_cpp(file):
    """llama.cpp stores ln_attn as attn_norm_2 and ln_mlp as attn_norm; a single norm is attn_norm too."""
    names = {}
    for kind in ("falcon-40b", "falcon"):
        entry = STORED[kind]
        metadata, tensors = stored(entry, weights(made(entry)))
        facts = facts_of(read_whole(file(metadata, tensors)), "tiny.gguf")
        config_of(facts)
        stems = [stem for stem in ("attn_norm", "attn_norm_2") if facts.has(f"blk.0.{stem}.weight")]
        names[kind] = [weights_of(f"blk.0.{stem}.weight", facts.arch) for stem in stems]
    assert names == {
        "falcon-40b": [("layers.0.ffn_norm.weight",), ("layers.0.attention_norm.weight",)],
        "falcon": [("layers.0.attention_norm.weight",)],
    }
