"""A whole config.json.

Which family reads it, which head it has, what is said of what is left, and how its layers are grouped.
"""

from copy import deepcopy

import pytest
import torch
import transformers

from archcli.errors import ArchError
from archcli.load.huggingface.config import MOST_LAYERS, Config
from archcli.load.huggingface.config_json import unplaced
from archcli.load.huggingface.importer import import_config
from archcli.load.huggingface.parts.decoder import groups
from archcli.load.huggingface.registry import families, family_of
from archcli.load.yaml.nodes import plain
from archcli.measure.passes import forward_pass
from drawing import TINY
from importing import built, mapped
from table import every_row

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

CHATGLM = {"model_type": "chatglm", "architectures": ["ChatGLMModel"], "num_layers": 2, "hidden_size": 4096}

FILE = {
    **TINY,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "architectures": ["LlamaForCausalLM"],
}


def understood(config):
    """The model of a whole file, and the notes."""
    found = import_config(config)
    return built(plain(found.tree)), found.notes


def causal(model_type, config):
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(
            transformers.AutoConfig.for_model(**{**deepcopy(config), "model_type": model_type})
        )


def total(model):
    return sum(p.numel() for p in model.parameters())


def our_total(model):
    return sum(row.params for row in forward_pass(model, 1, 1).rows)


@pytest.mark.parametrize(
    "stated",
    [{"architectures": ["LlamaModel"]}, {"architectures": []}, {"architectures": None}],
    ids=["LlamaModel", "empty", "null"],
)
@pytest.mark.parametrize("tied", [True, False])
def test_without_a_class_that_has_a_head_there_is_none(stated, tied):
    model, notes = understood({**FILE, **stated, "tie_word_embeddings": tied})
    config = transformers.AutoConfig.for_model(**deepcopy(FILE))
    with torch.device("meta"):
        assert our_total(model) == total(transformers.AutoModel.from_config(config))
    assert any("no output head" in note for note in notes)


def test_a_file_of_a_causal_model_needs_no_note():
    model, notes = understood(FILE)
    assert our_total(model) == total(causal("llama", FILE))
    assert notes == ()


def test_another_head_is_named_as_not_counted():
    _, notes = understood({**FILE, "architectures": ["LlamaForSequenceClassification"]})
    assert notes == ("the head of LlamaForSequenceClassification is not counted, the base model is",)


def test_the_base_class_of_chatglm_has_the_head():
    model, notes = understood(CHATGLM)
    assert model.head is not None
    assert notes == ()


def test_keys_that_no_one_reads_are_reported():
    _, notes = understood(
        {**FILE, "n_extra_norms": 2, "use_gate": True, "use_mrope": False, "eos_token_id": 2, "more": None}
    )
    assert notes == ("the class of llama does not read 'n_extra_norms', 'use_gate'",)


def test_a_flood_of_keys_is_reported_in_short():
    _, notes = understood({**FILE, **{f"key{i}": 1 for i in range(1000)}})
    assert len(notes) == 1
    assert notes[0].endswith("'key19' and 980 more")


VISION = {"hidden_size": 1152, "num_hidden_layers": 27}
TEXT = {**TINY, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 7}
GEMMA3 = {
    "model_type": "gemma3",
    "architectures": ["Gemma3ForConditionalGeneration"],
    "text_config": TEXT,
    "vision_config": VISION,
}


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize(
    ("outer", "text"),
    [
        ({}, TEXT),
        ({"architectures": None}, TEXT),
        ({"tie_word_embeddings": False}, {**TEXT, "tie_word_embeddings": False}),
        ({"text_config": None}, {}),
    ],
    ids=["whole", "no-class", "untied", "no-text"],
)
def test_a_multimodal_file_is_its_causal_text_model(outer, text):
    model, notes = understood({**GEMMA3, **outer})
    assert our_total(model) == total(causal("gemma3_text", text))
    assert any("those of vision_config stand beside them" in note for note in notes)


def test_a_quantization_is_noted():
    assert "quantization_config" in import_config({**FILE, "quantization_config": {"bits": 4}}).notes[0]


@every_row(
    ("config", "said"),
    [
        ([], "mapping"),
        ({}, "model_type"),
        ({"model_type": 7}, "model_type"),
        ({"model_type": "lama"}, "llama"),
        ({"model_type": "qwen4"}, "qwen3"),
        ({"model_type": "base"}, "not supported"),
        ({"model_type": "common"}, "not supported"),
        ({"model_type": "../llama"}, "not supported"),
        ({"model_type": "emu", "text_config": {"model_type": "llama"}}, "text_config is of the known type"),
        ({"model_type": "gemma3", "text_config": {"model_type": "llama"}}, "text_config"),
        ({"model_type": "gemma3", "text_config": "text"}, "text_config"),
        ({"model_type": "llama", "per_layer_config": {"0": {"head_dim": 8}}}, "per_layer_config"),
    ],
    ids=str,
)
def test_a_file_of_no_known_family_is_refused(config, said):
    with pytest.raises(ArchError, match=said):
        import_config(config)


@pytest.mark.parametrize("letters", [100, 252, 253, 4096, 100_000])
def test_a_type_too_long_for_a_file_name_is_refused(letters):
    with pytest.raises(ArchError, match=r"model_type 'mm.*… is not supported"):
        import_config({"model_type": letters * "m"}, unplaced("f"))


def test_every_family_is_found_by_every_type_it_states():
    assert {"llama", "gemma3_text", "chatglm", "gpt2", "kimi_k2"} <= set(families())
    assert all(family_of(kind).about for kind in families())


# layers as groups


@every_row(
    ("kinds", "expected"),
    [
        ("aaaa", [(4, "a")]),
        ("a", [(1, "a")]),
        ("abab", [(4, "ab")]),
        ("ababa", [(5, "ab")]),
        ("aab", [(2, "a"), (1, "b")]),
        ("aaabbbbb", [(3, "a"), (5, "b")]),
        ("aaaaabaaaaabaa", [(14, "aaaaab")]),
        ("aaabaaabc", [(8, "aaab"), (1, "c")]),
        ("abc", [(1, "a"), (1, "b"), (1, "c")]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_layers_fall_into_runs_and_patterns(kinds, expected):
    found = groups([{"kind": kind} for kind in kinds])
    assert found == [
        {
            "n_layers": n,
            **({"layer": {"kind": p}} if len(p) == 1 else {"pattern": [{"kind": kind} for kind in p]}),
        }
        for n, p in expected
    ]


def test_a_hundred_thousand_layers_without_a_pattern_are_refused_at_once():
    turned = [i.bit_count() % 2 for i in range(MOST_LAYERS)]
    with pytest.raises(ArchError, match="groups"):
        mapped(Config({"model_type": "smollm3", "num_hidden_layers": MOST_LAYERS, "no_rope_layers": turned}))


LONGCAT = {
    **{key: TINY[key] for key in ("vocab_size", "hidden_size", "max_position_embeddings")},
    "num_layers": 2,
    "ffn_hidden_size": 40,
    "expert_ffn_hidden_size": 20,
    "moe_topk": 3,
    "n_routed_experts": 6,
    "q_lora_rank": 12,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "head_dim": 4,
}


@pytest.mark.parametrize("zero", [0, 5])
def test_what_longcats_class_holds_for_zero_experts_is_noted(zero):
    config = {**LONGCAT, "num_attention_heads": 4, "zero_expert_num": zero}
    with torch.device("meta"):
        theirs = transformers.LongcatFlashForCausalLM(transformers.LongcatFlashConfig(**config))
    stated = {**config, "model_type": "longcat_flash", "architectures": ["LongcatFlashForCausalLM"]}
    imported = import_config(stated)
    ours = sum(row.params for row in forward_pass(built(plain(imported.tree)), 1, 1).rows)
    more = sum(weight.numel() for weight in theirs.parameters()) - ours
    said = f"the class holds {more:,} more parameters, for zero experts that compute nothing"
    assert imported.notes == ((said,) if zero else ())
    assert (more > 0) == (zero > 0)
