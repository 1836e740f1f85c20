"""adapter_config.json of peft: the trained parameters are those that peft counts, r * (in + out) a matrix."""

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from archcli.errors import ArchError
from archcli.load.source import load, load_text
from archcli.measure.params import count_params
from table import every_row

LORA = {
    "peft_type": "LORA",
    "base_model_name_or_path": "meta-llama/Llama-3.1-8B-Instruct",
    "r": 16,
    "lora_alpha": 32,
    "lora_dropout": 0.05,
    "bias": "none",
    "target_modules": ["q_proj", "v_proj"],
    "task_type": "CAUSAL_LM",
}
# of Llama 3.1 8B: 32 layers, 4096 wide, keys and values of 1024, a network of 14336
Q, K, DOWN = 4096 + 4096, 4096 + 1024, 4096 + 14336
SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
COUNTED = {
    "q-and-v": ({}, 32 * 16 * (Q + K)),
    "seven": ({"target_modules": SEVEN}, 32 * 16 * (2 * Q + 2 * K + 3 * DOWN)),
    "all-linear": ({"target_modules": "all-linear"}, 32 * 16 * (2 * Q + 2 * K + 3 * DOWN)),
    "with-paths": ({"target_modules": ["self_attn.q_proj"]}, 32 * 16 * Q),
    "rank": ({"r": 8}, 32 * 8 * (Q + K)),
    "head": ({"target_modules": ["lm_head"]}, 16 * (4096 + 128256)),
    "table": ({"target_modules": ["embed_tokens"]}, 16 * (4096 + 128256)),
    "a-preset": ({"base_model_name_or_path": "llama-3.1-8b"}, 32 * 16 * (Q + K)),
}


def trained(config):
    return count_params(load_text(json.dumps(config), "f.json").model, "bf16").totals["lora_params"]


@every_row(("changes", "counted"), COUNTED.values(), ids=COUNTED)
def test_what_is_trained_by_hand(changes, counted):
    assert trained({**LORA, **changes}) == counted


# get_nb_trainable_parameters() of peft 0.21.2 on the class of transformers, r = 4
SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "intermediate_size": 176,
    "num_key_value_heads": 2,
}
OF_PEFT = {
    "llama": ("llama", {}, "all-linear", 14_016),
    "qwen2": ("qwen2", {}, SEVEN, 14_016),
    "qwen3": ("qwen3", {"head_dim": 32}, "all-linear", 16_320),
    "gemma2": ("gemma2", {"head_dim": 32}, ["o_proj", "down_proj"], 5_184),
    "mistral": ("mistral", {}, ["lm_head", "q_proj"], 2_192),
    "phi": ("phi", {"num_key_value_heads": 4}, ["fc1", "fc2"], 5_760),
    "phi3": ("phi3", {"num_key_value_heads": 4}, ["o_proj", "down_proj"], 4_416),
    "opt": ("opt", {"ffn_dim": 176, "word_embed_proj_dim": 64}, ["q_proj", "v_proj"], 3_072),
}


@every_row(("kind", "more", "targets", "counted"), OF_PEFT.values(), ids=OF_PEFT)
def test_what_peft_counts_of_a_base_in_a_folder(kind, more, targets, counted, tmp_path):
    base = tmp_path / kind
    base.mkdir()
    config = {"model_type": kind, "architectures": ["ForCausalLM"], **SIZES, **more}
    (base / "config.json").write_text(json.dumps(config))
    asked = {**LORA, "base_model_name_or_path": str(base), "r": 4, "target_modules": targets}
    assert trained(asked) == counted


def test_a_folder_with_an_adapter_alone(tmp_path):
    folder = tmp_path / "my-adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(LORA))
    (folder / "adapter_model.safetensors").write_bytes(b"not looked at")
    loaded = load(str(folder), ["lora.rank=8"])
    assert (loaded.name, loaded.model.lora.rank, loaded.model.lora.alpha) == ("my-adapter", 8, 32)
    assert loaded.source == str(folder / "adapter_config.json")
    assert loaded.notes == (
        "the base model is preset llama-3.1-8b",
        "meta-llama/Llama-3.1-8B-Instruct is taken as the preset llama-3.1-8b",
    )


def test_a_stabilized_rank_divides_by_its_root():
    """alpha / sqrt(r), arXiv:2312.03732; archcli's factor is alpha / rank."""
    lora = load_text(json.dumps({**LORA, "use_rslora": True}), "f.json").model.lora
    assert lora.factor == 32 / 4


def test_a_format_in_the_name_of_the_base_is_noted():
    notes = load_text(
        json.dumps({**LORA, "base_model_name_or_path": "unsloth/llama-3-8b-bnb-4bit"}), "f.json"
    ).notes
    assert "nf4 is not applied: --dtype nf4 counts it" in notes


def test_names_of_mixtrals_matrices():
    """MixtralBlockSparseTop2MLP: w2(act(w1 x) * w3 x)."""
    asked = {**LORA, "base_model_name_or_path": "mixtral-8x7b", "target_modules": ["w1", "w2", "w3"]}
    assert load_text(json.dumps(asked), "f.json").model.lora.targets == ("gate", "down", "up")


def test_an_adapter_of_experts_is_one_for_each():
    """As transformers 4 holds them: Mixtral has 8 experts of 14336 in each of 32 layers."""
    asked = {**LORA, "base_model_name_or_path": "mixtral-8x7b", "target_modules": ["w1", "q_proj"]}
    assert trained(asked) == 32 * 16 * (8 * (4096 + 14336) + Q)
    assert any("each expert is adapted" in note for note in load_text(json.dumps(asked), "f.json").notes)


REFUSED = {
    "method": ({"peft_type": "IA3"}, "peft_type 'IA3' is not supported; supported: 'LORA'"),
    "dora": ({"use_dora": True}, "use_dora True is not supported"),
    "ranks": ({"rank_pattern": {"q_proj": 4}}, "rank_pattern {'q_proj': 4} is not supported"),
    "saved": ({"modules_to_save": ["lm_head"]}, "modules_to_save ['lm_head'] is not supported"),
    "layers": ({"layers_to_transform": [1]}, "layers_to_transform [1] is not supported"),
    "biases": ({"bias": "all"}, "bias 'all' is not supported"),
    "no-base": ({"base_model_name_or_path": None}, "base_model_name_or_path names no model"),
    "base": (
        {"base_model_name_or_path": "./nothing"},
        "the base model './nothing' is not known: no preset or model of the hub './nothing'",
    ),
    "standard-input": ({"base_model_name_or_path": "-"}, "the base model '-' is not known"),
    "a-module": ({"base_model_name_or_path": "os:system"}, "the base model 'os:system' is not known"),
    "a-file": ({"base_model_name_or_path": __file__}, "is not known: no preset or model of the hub"),
    "pattern": ({"target_modules": ".*_proj"}, "target_modules is a pattern"),
    "no-targets": ({"target_modules": None}, "target_modules is left to peft's defaults"),
    "empty": ({"target_modules": []}, "target_modules must be a list of names, not []"),
    "fused": ({"target_modules": ["c_attn"]}, "'c_attn' is one matrix for several projections"),
    "unknown": ({"target_modules": ["q_prj"]}, "target_modules name 'q_prj', which is not known"),
    "absent": ({"target_modules": ["q_a_proj"]}, "'q_a_proj' of target_modules is no projection of"),
    "numbered": ({"target_modules": ["layers.0.q_proj"]}, "target_modules name layers by number"),
    "experts": (
        {"base_model_name_or_path": "mixtral-8x7b", "target_modules": "all-linear"},
        "target_modules 'all-linear' is not supported for 'mixtral-8x7b'",
    ),
    "rank": ({"r": 0}, "r must be a whole number above 0, not 0"),
    "dropout": ({"lora_dropout": 2}, "lora_alpha 32 and lora_dropout 2 are no scale and share"),
}


@every_row(("changes", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_counted_is_refused_in_a_line(changes, said, refused):
    (line,) = refused(json.dumps({**LORA, **changes}, indent=1))
    assert said in line


def test_parts_of_one_matrix_are_refused(tmp_path, refused):
    """Phi-3 holds q, k and v as one matrix, whose adapter has one A for the three."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "phi3", **SIZES}))
    asked = {**LORA, "base_model_name_or_path": str(tmp_path)}
    assert "holds q, k, v as one matrix, self_attn.qkv_proj" in refused(json.dumps(asked))[0]
    (line,) = refused(json.dumps({**asked, "target_modules": "all-linear"}))
    assert "'all-linear' is not supported" in line


def test_a_base_that_is_an_adapter_is_none(tmp_path):
    """Two adapters that name each other end in a line, not in a loop."""
    (tmp_path / "config.json").write_text(json.dumps({**LORA, "base_model_name_or_path": str(tmp_path)}))
    with pytest.raises(ArchError, match="is not known"):
        load_text(json.dumps({**LORA, "base_model_name_or_path": str(tmp_path)}), "f.json")


WRONG = (
    "x",
    [1, [2]],
    {"a": 1},
    True,
    None,
    -1,
    0,
    float("nan"),
    float("inf"),
    10**30,
    1e308,
    [None],
    "../..",
)


@pytest.mark.parametrize("key", LORA)
def test_no_wrong_type_is_a_traceback(key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in WRONG:
        start = time.process_time()
        with suppress(ArchError):
            load_text(json.dumps({**LORA, key: value}), "f.json")
        assert time.process_time() - start < 1


def test_a_merged_model_is_no_adapter():
    """A config.json may keep peft's keys beside its model_type."""
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SIZES, "peft_type": "LORA"}
    assert load_text(json.dumps(config), str(Path("a") / "config.json")).model.lora is None
