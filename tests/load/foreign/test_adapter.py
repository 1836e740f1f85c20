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


# as peft's get_pattern_key and check_target_module_exists read them
VARIED = {
    "rank-of-one": ({"rank_pattern": {"q_proj": 4}}, 32 * (4 * Q + 16 * K)),
    "first-rank-that-fits": ({"rank_pattern": {"self_attn.v_proj": 2, "v_proj": 4}}, 32 * (16 * Q + 2 * K)),
    "rank-of-a-layer": ({"rank_pattern": {r"layers\.0\.self_attn\.q_proj": 8}}, 16 * 32 * (Q + K) - 8 * Q),
    "rank-of-layers": ({"rank_pattern": {r".*\.[0-9]\..*q_proj": 8}}, 16 * 32 * (Q + K) - 10 * 8 * Q),
    "rank-no-part-of-a-step": ({"rank_pattern": {"proj": 4}}, 32 * 16 * (Q + K)),
    "alpha-alone": ({"alpha_pattern": {"q_proj": 4}}, 32 * 16 * (Q + K)),
    "layers": ({"layers_to_transform": [0, 1, 31]}, 3 * 16 * (Q + K)),
    "a-layer": ({"layers_to_transform": 5}, 16 * (Q + K)),
    "no-layers-listed": ({"layers_to_transform": []}, 32 * 16 * (Q + K)),
    "layers-by-pattern": ({"layers_to_transform": [0], "layers_pattern": "layers"}, 16 * (Q + K)),
    "layers-pattern-alone": ({"layers_pattern": ["layers"]}, 32 * 16 * (Q + K)),
    "numbered-target": ({"target_modules": ["0.self_attn.q_proj", "v_proj"]}, 16 * Q + 32 * 16 * K),
    "excluded": ({"exclude_modules": ["v_proj"]}, 32 * 16 * Q),
    "excluded-by-pattern": ({"exclude_modules": r".*\.(3|4)\..*v_proj"}, 32 * 16 * Q + 30 * 16 * K),
    "pattern-of-layers": ({"target_modules": r".*layers\.(0|1)\..*\.(q|v)_proj"}, 2 * 16 * (Q + K)),
    "all": (
        {
            "rank_pattern": {"q_proj": 4},
            "layers_to_transform": [0, 1],
            "exclude_modules": ["0.self_attn.v_proj"],
        },
        2 * 4 * Q + 16 * K,
    ),
}


@pytest.mark.long
@every_row(("changes", "counted"), VARIED.values(), ids=VARIED)
def test_ranks_and_layers_by_hand(changes, counted):
    assert trained({**LORA, **changes}) == counted


def test_scales_by_pattern():
    rules = load_text(json.dumps({**LORA, "alpha_pattern": {"q_proj": 4}}), "f.json").model.lora.rules
    assert [(rule.match, rule.rank, rule.alpha) for rule in rules] == [("attention.q", 16, 4)]


def test_a_tied_head_has_an_adapter_of_its_own():
    """Gemma 2 2B ties it to its table, of 256,000 words 2304 wide."""
    asked = {**LORA, "base_model_name_or_path": "gemma-2-2b", "target_modules": ["lm_head"]}
    assert trained(asked) == 16 * (256000 + 2304)


@pytest.mark.long
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
    said = "the name says nf4: its weights are taken so, unless --dtype says otherwise"
    assert f"{said}; training starts from bf16, and as QLoRA with --dtype nf4 and lora" in notes


def notes_of(config):
    return load_text(json.dumps(config), "f.json").notes


# of Qwen3.5-27B: 64 layers 5120 wide, a network of 17408; 16 layers have attention of 24 and 4 heads of 256,
# whose q_proj holds a gate beside the queries; 48 have 16 and 48 heads of 128 in delta nets
QWEN_Q, QWEN_K, QWEN_O, QWEN_FFN = 5120 + 2 * 24 * 256, 5120 + 4 * 256, 24 * 256 + 5120, 5120 + 17408
IN_QKV, IN_Z = 5120 + (16 + 16 + 48) * 128, 5120 + 48 * 128
BY_CLASS = {
    "hybrid": ("Qwen/Qwen3.5-27B", SEVEN, 16 * (QWEN_Q + 2 * QWEN_K + QWEN_O) + 64 * 3 * QWEN_FFN),
    "hybrid-q": ("Qwen/Qwen3.5-27B", ["q_proj"], 16 * QWEN_Q),
    "hybrid-delta": ("Qwen/Qwen3.5-27B", ["in_proj_qkv", "in_proj_z", "out_proj"], 48 * (IN_QKV + 2 * IN_Z)),
    # experts of Gemma 4 26B-A4B are one parameter; 25 layers have 16 and 8 heads of 256, 5 have 16 and 2 of
    # 512 whose values are their keys; beside the experts a network of 2112
    "experts": (
        "gemma-4-26b-a4b",
        SEVEN,
        25 * (2 * (2816 + 16 * 256) + 2 * (2816 + 8 * 256))
        + 5 * (2 * (2816 + 16 * 512) + (2816 + 2 * 512))
        + 30 * 3 * (2816 + 2112),
    ),
    "fused": ("gpt2", ["c_attn"], 12 * (768 + 3 * 768)),
    "phi-3": ("phi-4", ["qkv_proj", "gate_up_proj"], 40 * (5120 + 60 * 128 + 5120 + 2 * 17920)),
}


@pytest.mark.long
@every_row(("base", "targets", "rank_1"), BY_CLASS.values(), ids=BY_CLASS)
def test_targets_are_modules_of_the_class(base, targets, rank_1):
    asked = {**LORA, "base_model_name_or_path": base, "target_modules": targets}
    assert trained(asked) == 16 * rank_1


PUBLISHED = {
    # kvcache-ai/ktransformers #2146 prints 10,583,040 without the gate of the shared expert, a linear layer
    "qwen3.5-35b-a3b": ("all-linear", 8, 10_583_040 + 40 * 8 * (2048 + 1)),
    "gemma-4-26b-a4b": (SEVEN, 32, 37_171_200),
    "qwen3.5-27b": (SEVEN, 16, 79_691_776),
}


@pytest.mark.long
@every_row(("base", "asked"), PUBLISHED.items(), ids=PUBLISHED)
def test_what_trainers_print(base, asked):
    targets, rank, counted = asked
    assert trained({**LORA, "base_model_name_or_path": base, "r": rank, "target_modules": targets}) == counted


def test_experts_in_one_parameter_are_not_adapted_and_a_note_has_the_other_figure():
    """128 experts of 704 in each of 30 layers, 2816 wide."""
    asked = {**LORA, "base_model_name_or_path": "gemma-4-26b-a4b", "r": 32, "target_modules": SEVEN}
    other = 37_171_200 + 32 * 30 * 128 * 3 * (704 + 2816)
    (note,) = (note for note in notes_of(asked) if "experts" in note)
    assert f"with each by itself {other:,} would be trained" in note


VISION = (
    r"(?:.*?(?:language|text).*?(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense).*?(?:q_proj|k_proj|"
    r"v_proj|o_proj|gate_proj|up_proj|down_proj).*?)|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|attention|attn|"
    r"mlp|feed_forward|ffn|dense)\.(?:(?:q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)))"
)
"""target_modules as trainers of models that see write them."""


def test_a_pattern_means_whole_names():
    asked = {**LORA, "base_model_name_or_path": "qwen3.5-27b", "target_modules": VISION}
    assert trained(asked) == 79_691_776
    assert trained({**LORA, "target_modules": r".*\.(q|v)_proj"}) == 32 * 16 * (Q + K)


def test_a_name_of_no_module_is_noted_beside_others():
    asked = {**LORA, "target_modules": ["q_proj", "v_proj", "in_proj_qkv"]}
    assert trained(asked) == 32 * 16 * (Q + K)
    assert "no module of llama-3.1-8b is called 'in_proj_qkv' of target_modules" in notes_of(asked)


EXPERTS = 32 * 8
"""Of Mixtral 8x7B, 4096 wide, with 14336 within each expert."""


def test_experts_in_one_parameter_are_adapted_as_peft_adapts_it():
    """w1 and w3 lie in gate_up_proj: its adapter has twice the rank, and one A for both."""
    named = ["w1", "w2", "w3", "q_proj"]
    asked = {**LORA, "base_model_name_or_path": "mixtral-8x7b", "target_modules": named, "lora_dropout": 0}
    counted = EXPERTS * (32 * (4096 + 2 * 14336) + 16 * (14336 + 4096)) + 32 * 16 * Q
    assert trained(asked) == counted
    apart = EXPERTS * 3 * 16 * (4096 + 14336) + 32 * 16 * Q
    (note,) = (note for note in notes_of(asked) if "experts" in note)
    assert note.endswith(f"with each by itself {apart:,} would be trained")


# peft adapts w1 with w3 alone, and no parameter beside a dropout
OF_4 = {
    "w1": ({"lora_dropout": 0}, "peft refuses w1 without w3, which lies in the same parameter"),
    "dropout": ({"target_modules": ["w2", "q_proj"]}, "peft refuses lora_dropout 0.05 beside a parameter"),
}


@every_row(("changes", "said"), OF_4.values(), ids=OF_4)
def test_what_peft_refuses_is_counted_as_transformers_4_holds_experts(changes, said):
    asked = {**LORA, "base_model_name_or_path": "mixtral-8x7b", "target_modules": ["w1", "q_proj"], **changes}
    assert trained(asked) == EXPERTS * 16 * (4096 + 14336) + 32 * 16 * Q
    (note,) = (note for note in notes_of(asked) if "each expert is adapted" in note)
    assert note.endswith(said)


WHOLE = 32 * 16 * (Q + K)
SAVED = {
    "head": (["lm_head"], 128256 * 4096),
    "both-ends": (["embed_tokens", "lm_head"], 2 * 128256 * 4096),
    # peft looks how names end: input_layernorm, post_attention_layernorm, norm
    "norms": (["norm"], (2 * 32 + 1) * 4096),
    # an adapted module that is saved has no adapter
    "target": (["v_proj"], 32 * 1024 * 4096 - 32 * 16 * K),
    "module": (["mlp"], 32 * 3 * 4096 * 14336),
    "of-no-base": (["classifier", "score"], 0),
}


@every_row(("names", "more"), SAVED.values(), ids=SAVED)
def test_modules_to_save_are_trained_as_copies(names, more):
    """Beside the frozen ones, as print_trainable_parameters() of peft counts them."""
    totals = count_params(load_text(json.dumps({**LORA, "modules_to_save": names}), "f.json").model).totals
    assert totals["trainable_params"] == WHOLE + more
    assert totals["params"] == 8_030_261_248 + WHOLE + more


def test_dora_trains_a_number_for_each_output_as_peft_counts_it():
    """3,407,872 of A and B of q and v, and 32 x (4,096 + 1,024) magnitudes."""
    text = json.dumps({**LORA, "r": 8, "target_modules": ["q_proj", "v_proj"], "use_dora": True})
    assert count_params(load_text(text, "f.json").model).totals["trainable_params"] == 3_407_872 + 163_840


REFUSED = {
    "method": ({"peft_type": "IA3"}, "peft_type 'IA3' is not supported; supported: 'LORA'"),
    "layers-twice": ({"layer_replication": [[0, 2]]}, "layer_replication [[0, 2]] is not supported"),
    "ranks": ({"rank_pattern": {"q_proj": 0}}, "rank_pattern {'q_proj': 0} is not understood"),
    "rank-of-a-pattern": ({"rank_pattern": {"(q": 4}}, "rank_pattern {'(q': 4} is not understood"),
    "saved": ({"modules_to_save": "lm_head"}, "modules_to_save 'lm_head' is not supported"),
    "saved-layer": ({"modules_to_save": ["layers.0.mlp"]}, "layers.0.mlp names a layer by number"),
    "saved-experts": (
        {"base_model_name_or_path": "qwen3-30b-a3b", "modules_to_save": ["mlp"]},
        "mlp holds router, which is no layer, table or norm by itself",
    ),
    "module": (
        {"target_modules": ["self_attn"]},
        "'self_attn' of target_modules means the module layers.0.self",
    ),
    "module-by-pattern": ({"target_modules": ".*self_attn.*"}, ".self_attn, which peft refuses"),
    "layers": ({"layers_to_transform": ["a"]}, "layers_to_transform ['a'] is not understood"),
    "excluded": ({"exclude_modules": ["q_proj", "v_proj"]}, "'q_proj' of target_modules is no linear layer"),
    "biases": ({"bias": "all"}, "bias 'all' is not supported"),
    "no-base": ({"base_model_name_or_path": None}, "base_model_name_or_path names no model"),
    "base": (
        {"base_model_name_or_path": "./nothing"},
        "the base model './nothing' is not known: no preset or model of the hub './nothing'",
    ),
    "standard-input": ({"base_model_name_or_path": "-"}, "the base model '-' is not known"),
    "a-module": ({"base_model_name_or_path": "os:system"}, "the base model 'os:system' is not known"),
    "a-file": ({"base_model_name_or_path": __file__}, "is not known: no preset or model of the hub"),
    "pattern": ({"target_modules": "(q"}, "target_modules '(q' is a pattern that is not understood"),
    "no-targets": ({"target_modules": None}, "target_modules is left to peft's defaults"),
    "empty": ({"target_modules": []}, "target_modules must be a list of names, not []"),
    "fused": ({"target_modules": ["c_attn"]}, "'c_attn' of target_modules is no linear layer of"),
    "unknown": (
        {"target_modules": ["q_prj"]},
        "'q_prj' of target_modules is no linear layer of 'llama-3.1-8b'",
    ),
    "absent": ({"target_modules": ["q_a_proj"]}, "'q_a_proj' of target_modules is no linear layer"),
    "no-class": (
        {"base_model_name_or_path": "gpt3-175b", "target_modules": "all-linear"},
        "target_modules 'all-linear' is not supported for 'gpt3-175b'",
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
    assert "it has qkv_proj, o_proj, gate_up_proj, down_proj" in refused(json.dumps(asked))[0]
    # 3 layers, 64 wide: 4 heads and 2 of 16, a network of 176
    qkv, o, gate_up, down = 64 + 8 * 16, 64 + 64, 64 + 2 * 176, 176 + 64
    assert trained({**asked, "target_modules": "all-linear"}) == 3 * 16 * (qkv + o + gate_up + down)


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


@pytest.mark.sample(1, whole=True)
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
