"""target_modules mean what they mean to peft: it trains as many parameters of the class, or refuses."""

import json

import pytest

from adapted_modules import ALL, names_of, trained
from archcli.errors import ArchError
from archcli.load.source import load_text
from archcli.measure.params import count_params
from class_matrices import of_family
from names_on_purpose import NOT_ADAPTED, REFUSED_TABLES, UNREAD_TARGETS
from parity.families import FAMILIES

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

RANK = 3
OLDER = "each expert is adapted by itself, as transformers 4's class holds experts"
"""Begins the note on targets that peft refuses of transformers 5's class."""


@pytest.fixture
def base(tmp_path):
    """Writes a family's config.json, and returns its folder."""

    def written(name, architecture):
        config = {"architectures": [architecture], **FAMILIES[name].config}
        (tmp_path / "config.json").write_text(json.dumps(config))
        return tmp_path

    return written


def answer(folder, target):
    """The parameters that are trained, and the notes; None where the target is refused."""
    asked = {
        "peft_type": "LORA",
        "base_model_name_or_path": str(folder),
        "r": RANK,
        "lora_alpha": 6,
        "target_modules": target if target == ALL else [target],
    }
    try:
        loaded = load_text(json.dumps(asked), "f")
    except ArchError:
        return None, ()
    return count_params(loaded.model).totals["lora_params"], loaded.notes


def off(folder, model, names):
    """The names by which another number is counted than peft trains: {name: (counted, expected)}."""
    wrong = {}
    for name in names:
        expected, (counted, notes) = trained(model, name, RANK), answer(folder, name)
        is_older = expected is None and any(OLDER in note for note in notes)
        if counted != expected and not is_older:
            wrong[name] = (counted, expected)
    return wrong


# what peft 0.21.2 itself trains of transformers 5.24's class at rank 3, by inject_adapter_in_model
OF_PEFT = {
    # 4 experts of 20 in the second layer, 32 wide: 4 * (20 + 32); gate_proj and up_proj without one another
    "experts": ("qwen3-moe", "Qwen3MoeForCausalLM", "down_proj", 936),
    "router": ("qwen3-moe", "Qwen3MoeForCausalLM", "gate", 114),
    "gate-and-up": ("qwen3-moe", "Qwen3MoeForCausalLM", "all-linear", 5274),
    "layers-alike": ("albert", "AlbertForMaskedLM", "query", 192),
    "blocks-used-again": ("zamba", "ZambaForCausalLM", "k_proj", 576),
    "positions": ("gpt2", "GPT2LMHeadModel", "wpe", 288),
    "two-ties": ("marian", "MarianMTModel", "embed_tokens", 510),
    "blocks-of-a-matrix": ("deepseek-v4", "DeepseekV4ForCausalLM", "o_a_proj", 630),
    "linear-router": ("llama-4", "Llama4ForCausalLM", "router", 228),
    # 5 labels of 32: a layer of tokens' classifier, which sequences have a module of two layers for
    "classifier-of-tokens": ("camembert", "CamembertForTokenClassification", "classifier", 111),
    "module": ("llama", "LlamaForCausalLM", "self_attn", None),
    "layers-of-own-class": ("ibert", "IBertForMaskedLM", "query", None),
    "of-mamba": ("mamba", "MambaForCausalLM", "out_proj", None),
}


@pytest.mark.parametrize(("family", "architecture", "target", "counted"), OF_PEFT.values(), ids=OF_PEFT)
def test_what_peft_itself_trains(family, architecture, target, counted, base):
    assert answer(base(family, architecture), target)[0] == counted


CASES = [name for name in FAMILIES if name not in NOT_ADAPTED]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CASES)
def test_each_leaf_and_parent_alone_a_target(name, base):
    model = of_family(FAMILIES[name])
    listed = {*REFUSED_TABLES, *UNREAD_TARGETS.get(name, {})}
    names = [it for it in names_of(model) if it not in listed]
    assert off(base(name, type(model).__name__), model, names) == {}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CASES)
def test_tables_that_are_no_lookup_are_refused_and_never_miscounted(name, base):
    model = of_family(FAMILIES[name])
    names = [it for it in names_of(model) if it in REFUSED_TABLES]
    wrong = off(base(name, type(model).__name__), model, names)
    assert all(counted is None for counted, _ in wrong.values())
