"""No key that a class of transformers writes is reported as not understood, whatever its other settings."""

import dataclasses

import pytest
import transformers

from archcli.errors import ArchError
from archcli.load.huggingface.importer import import_config
from archcli.load.huggingface.registry import families
from archcli.load.huggingface.wrappers.table import WRAPPERS
from drawing import cases
from import_variants import VARIANTS
from table import every_row, sampled_rows
from wrapping import NAMES, OTHER_PARTS, POOLS, tiny_text

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

OWN_CODE = {kind for kind in families() if kind not in transformers.CONFIG_MAPPING}
"""Those whose class is in their repositories."""

ROPE = {"rope_type": "default", "rope_theta": 10000.0}
REQUIRED = {
    "clip": {"architectures": ["CLIPForImageClassification"]},
    "metaclip_2": {"architectures": ["MetaClip2ForImageClassification"]},
    "siglip": {"architectures": ["SiglipForImageClassification"]},
    "siglip2": {"architectures": ["Siglip2ForImageClassification"]},
    "esm": {"pad_token_id": 1},  # the class has none, and numbers positions from it
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE}},
    "deepseek_v2": {"num_experts_per_tok": 6},
    "dots1": {"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "lfm2_moe": {"layer_types": ["conv"] * 31 + ["full_attention"]},
    "nemotron": {"num_key_value_heads": 48},
    "qwen4_exp_text": POOLS,
}
CONFIGS = {
    **{(kind, "default"): REQUIRED.get(kind, {}) for kind in families() if kind not in OWN_CODE},
    **{(kind, name): config for kind, name, config in cases()},
    **{(kind, name): config for kind, options in VARIANTS.items() for name, config in options.items()},
}


def not_understood(config):
    notes = import_config(config).notes
    return [note for note in notes if "was not understood" in note or "does not read" in note]


@sampled_rows(("kind", "name"), CONFIGS, 15, lots=8)
def test_what_a_class_writes_is_understood(kind, name):
    config = dict(CONFIGS[kind, name])
    written = transformers.CONFIG_MAPPING[kind](**config).to_dict()
    stated = {**written, **config, "model_type": kind, "architectures": config.get("architectures", [])}
    assert not_understood(stated) == []


@sampled_rows("kind", [kind for kind in families() if kind not in OWN_CODE], 8, lots=8)
def test_no_field_of_a_class_is_unknown_when_it_is_set(kind):
    """Fields that a default file leaves null or false; their values do not matter where they are not read."""
    cls = transformers.CONFIG_MAPPING[kind]
    default = {"model_type": kind, **REQUIRED.get(kind, {})}
    unknown = set()
    for field in dataclasses.fields(cls):
        try:
            notes = not_understood({**default, field.name: field.default or "set"})
        except ArchError:  # it is read, and refused
            continue
        unknown |= {field.name for note in notes if repr(field.name) in note}
    assert unknown == set()


@sampled_rows("kind", sorted(WRAPPERS.keys() & NAMES.keys()), 4)
def test_what_a_wrapper_writes_is_understood(kind):
    cls, inner = transformers.CONFIG_MAPPING[kind], WRAPPERS[kind].text
    known = transformers.CONFIG_MAPPING[inner]
    names = {field.name for field in dataclasses.fields(known)} | known.attribute_map.keys()
    tiny = {key: value for key, value in tiny_text(inner).items() if key in {*names, "model_type"}}
    text = {} if inner == "opt" else {"text_config": tiny}
    config = cls(**OTHER_PARTS.get(kind, {}), **text).to_dict()
    assert set(not_understood(config)) <= {
        "key 'has_lora_adapter' was not understood and may change the count"
    }


SEEN = {
    "nemotron": {"rms_norm_eps": 1e-5},
    "gpt2": {"output_past": True, "_num_labels": 1, "eos_token": "x", "type_vocab_size": 1},
    "deepseek_v3": {"qk_head_dim": 192, "num_experts_per_tok": 8},
    "llama4_text": {"use_qk_norm": True, "no_rope_layers": [0] * 48},
    "falcon": {"multi_query": True, "new_decoder_architecture": True},
    "qwen3": {"use_qk_norm": True},
    "llama": {"eos_token": "</s>", "type_vocab_size": 2},
}


@every_row(("kind", "keys"), SEEN.items(), ids=SEEN)
def test_what_files_of_the_hub_hold_besides_is_understood(kind, keys):
    assert not_understood({"model_type": kind, **keys}) == []


INDEXED = {"indexer_types": ["full", "shared"], "index_topk_freq": 4, "index_skip_topk_offset": 3}
HARMLESS = {
    "glm_moe_dsa": {**INDEXED, "num_hidden_layers": 2, "index_share_for_mtp_iteration": True},
    "step3p5": {"scoring_func": "sigmoid", "n_shared_experts": 1, "first_k_dense_replace": 3},
    "qwen3_5_text": {"output_gate_type": "swish", "moe_router_dtype": "float32"},
    "qwen": {"rms_norm_eps": 1e-6, "rope_theta": 1e4, "bias_dropout_fusion": True},
    "minimax_m2": {"max_cache_length": 1024, "linear_impl_type": "x", "tokenizer": "T"},
    "gpt2": {"intermediate_size": 3072, "im_end_id": 3, "fill_token_ids": [1, 2], "tokenizer_type": "x"},
    "mamba": {"norm_eps": 1e-5, "fuse_norm": True, "fuse_cross_entropy": True, "z_loss_weight": 0.1},
    "llama": {"sliding_window": 4096, "max_window_layers": 28, "use_sliding_window": False},
    "mixtral": {"moe_frequency": 1, "use_flash_attention": True, "mlp_dropout": 0.1},
    "llava": {"image_crop_resolution": 224, "mm_resampler_type": "x", "vision_tower_depth": 2},
}


@every_row(("kind", "keys"), HARMLESS.items(), ids=HARMLESS)
def test_what_changes_no_count_is_not_reported(kind, keys):
    text = {"text_config": {}} if kind == "llava" else {}
    assert not_understood({"model_type": kind, **text, **keys}) == []


CHANGING = {
    "step3p5": {"scoring_func": "softmax", "n_shared_experts": 2, "first_k_dense_replace": 1},
    "qwen3_5_text": {"output_gate_type": "sigmoid"},
    "gpt2": {"intermediate_size": 3000, "image_tokens": 4},
    "llama": {"sliding_window": 4096, "max_window_layers": 28, "draft_vocab_size": 32000},
    "mixtral": {"moe_frequency": 2, "num_experts_per_token": 2},
}


@pytest.mark.parametrize(("kind", "keys"), CHANGING.items(), ids=CHANGING)
def test_what_a_class_does_not_read_is_named(kind, keys):
    notes = not_understood({"model_type": kind, **keys})
    assert notes == [f"the class of {kind} does not read {', '.join(map(repr, keys))}"]


@pytest.mark.parametrize(("kind", "keys"), CHANGING.items(), ids=CHANGING)
@pytest.mark.parametrize(
    "of_others", [{"auto_map": {"AutoConfig": "a.B"}}, {"architectures": ["NewForCausalLM"]}]
)
def test_what_the_code_of_others_may_read_may_change_a_count(kind, keys, of_others):
    notes = not_understood({"model_type": kind, **of_others, **keys})
    assert notes == [f"key {key!r} was not understood and may change the count" for key in keys]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("qwen3", {"linear_block_size": 32}),
        ("qwen2", {"mask_value": -1.0}),
        ("llama4_text", {"nope_layer_interval": 4}),
        ("gemma3_text", {"sliding_window_attention_size": 4, "global_local_attention_pattern": 6}),
        ("gemma4_text", {"rope_local_base_freq": 10000.0}),
    ],
)
def test_no_count_of_a_class_is_doubted_for_a_key_that_it_does_not_read(kind, keys):
    assert not [note for note in import_config({"model_type": kind, **keys}).notes if "may change" in note]


def test_parts_of_a_wrapper_name_what_its_class_does_not_read():
    """VoxtralEncoder's heads are as wide as its width over their number, whatever the file says."""
    text, audio = {"hidden_size": 64}, {"head_dim": 64, "num_key_value_heads": 20}
    config = {"model_type": "voxtral", "text_config": text, "audio_config": audio}
    assert not_understood(config) == ["the class of voxtral does not read 'head_dim', 'num_key_value_heads'"]


EXPERTS = {"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2}
CODE = {"model_type": "deepseek_v3", "auto_map": {"AutoConfig": "a.B"}}
SAME = {"num_routed_experts": 8, "num_shared_experts": 1}


def test_a_number_said_by_both_words_is_understood():
    """DeepSeek's code reads n_routed_experts, and files of its tools state num_routed_experts too."""
    assert not_understood({**CODE, **EXPERTS, **SAME}) == []
    doubted = ["key 'num_routed_experts' was not understood and may change the count"]
    assert not_understood({**CODE, **EXPERTS, "num_routed_experts": 9}) == doubted


def test_a_part_said_twice_is_understood_where_both_agree():
    """CLIP's class lets text_config_dict overrule text_config."""
    text = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = {"model_type": "clip", "architectures": ["CLIPModel"], "text_config": text}
    assert not_understood({**config, "text_config_dict": {"hidden_size": 64, "bos_token_id": None}}) == []
    doubted = ["key 'text_config_dict' was not understood and may change the count"]
    assert not_understood({**config, "text_config_dict": {"hidden_size": 128}}) == doubted


def test_attention_of_other_keys_than_the_class_has_is_refused():
    with pytest.raises(ArchError, match="use_mla False is not supported"):
        import_config({"model_type": "deepseek_v2", "num_experts_per_tok": 6, "use_mla": False})


ZAMBA2 = {
    "model_type": "zamba2",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_mamba_heads": 8,
    "layers_block_type": ["mamba", "hybrid", "mamba"],
}


def test_layers_that_a_list_names_beyond_the_hybrid_ones_are_noted():
    """Zamba2's class holds adapters for each entry: 166,312 parameters for 165,544 with 5 beside 1."""
    assert not any("hybrid" in note for note in import_config({**ZAMBA2, "hybrid_layer_ids": [1]}).notes)
    notes = import_config({**ZAMBA2, "hybrid_layer_ids": [1, 5]}).notes
    assert any(note.startswith("hybrid_layer_ids names 5, no hybrid layers") for note in notes)


@pytest.mark.parametrize("number", [3, 5])
def test_kinds_of_another_number_of_layers_are_noted(number):
    """transformers refuses both: num_hidden_layers must be equal to the number of layer_types."""
    kinds = ["full_attention"] * number
    config = {"model_type": "smollm3", "num_hidden_layers": 4, "layer_types": kinds}
    with pytest.raises(Exception, match="must be equal to the number of `layer_types`"):
        transformers.SmolLM3Config(num_hidden_layers=4, layer_types=kinds)
    try:
        notes = import_config(config).notes
    except ArchError as refused:
        notes = [refused.problems[0].what]
    assert any("layer_types" in note and str(number) in note for note in notes)
