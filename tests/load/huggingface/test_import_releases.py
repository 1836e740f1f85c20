"""Files of models of 2024 to 2026 whose type is not their class's, or has no class: counts from outside."""

import json

import pytest

import archcli
from archcli.load.source import load_text
from table import every_row

OLMO_1B = {
    "model_type": "hf_olmo",
    "architectures": ["OLMoForCausalLM"],
    "d_model": 2048,
    "n_layers": 16,
    "n_heads": 16,
    "mlp_hidden_size": 16384,
    "embedding_size": 50304,
    "vocab_size": 50280,
    "max_sequence_length": 2048,
    "layer_norm_with_affine": False,
    "weight_tying": True,
}
MINICPM4_8B = {
    "model_type": "minicpm4",
    "architectures": ["MiniCPM4ForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "intermediate_size": 16384,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "vocab_size": 73448,
    "scale_emb": 12,
    "scale_depth": 1.4,
    "dim_model_base": 256,
    "tie_word_embeddings": False,
}
ATTENTION, NETWORK = 2 * 4096**2 + 2 * 4096 * 2 * 128, 3 * 4096 * 16384  # of a layer of MiniCPM4 8B
TOTALS = {
    # the classes' defaults, counted on the meta device by transformers 5.24
    "sarvam-30b": ({"model_type": "sarvam_moe", "num_hidden_layers": 19}, 32_152_648_064),
    "sarvam-105b": ({"model_type": "sarvam_mla", "num_hidden_layers": 32}, 106_031_763_456),
    # arXiv:2402.00838; a table of 50,304 rows, 16 layers of four matrices and three of d_ff 8,192
    "olmo-1b": (OLMO_1B, 50304 * 2048 + 16 * (4 * 2048**2 + 3 * 2048 * 8192)),
    "minicpm4-8b": (MINICPM4_8B, 2 * 73448 * 4096 + 32 * (ATTENTION + NETWORK + 2 * 4096) + 4096),
}


def imported(config):
    return load_text(json.dumps({"architectures": ["ForCausalLM"], **config}), "config.json")


@every_row("name", TOTALS)
def test_counts_what_its_class_has(name):
    config, total = TOTALS[name]
    assert archcli.count_params(imported(config).model).totals["params"] == total


SARVAM_105B = {
    "model_type": "sarvam_mla",
    "num_hidden_layers": 32,
    "num_experts": 128,
    "num_shared_experts": 1,
    "head_dim": 576,
    "q_head_dim": 192,
    "rope_scaling": {"type": "deepseek_yarn", "factor": 40, "original_max_position_embeddings": 4096},
}


def test_the_first_files_of_sarvam_are_explained():
    """As SarvamMLAConfig translates them: deepseek_yarn is YaRN, head_dim is derived."""
    loaded = imported(SARVAM_105B)
    assert [note for note in loaded.notes if "understood" in note] == []
    scaling = loaded.model.groups[0].blocks[0].attention.position.scaling
    assert (scaling.kind, scaling.factor) == ("yarn", 40)
    assert archcli.count_params(loaded.model).totals["params"] == 106_031_763_456


PHI_4 = {"hidden_size": 5120, "num_hidden_layers": 40, "intermediate_size": 17920, "num_attention_heads": 40}
M3 = {"hidden_size": 6144, "num_hidden_layers": 4, "num_local_experts": 8, "first_k_dense_replace": 1}
ALIKE = {
    "phi4": ("phi3", {**PHI_4, "num_key_value_heads": 10, "vocab_size": 100352}, {}),
    "minimax_m3": (
        "minimax_m3_vl_text",
        {**M3, "num_nextn_predict_layers": 1},
        {**M3, "moe_layer_freq": [0, 1, 1, 1]},
    ),
    "minicpm4": ("minicpm", {key: value for key, value in MINICPM4_8B.items() if key != "model_type"}, {}),
}


@every_row("kind", ALIKE)
def test_a_type_is_read_as_its_kin(kind):
    """Also where one file says with another key what is dense."""
    kin, config, restated = ALIKE[kind]
    mine, theirs = (
        imported({**config, "model_type": kind}),
        imported({**(restated or config), "model_type": kin}),
    )
    assert mine.model == theirs.model
    assert [note for note in mine.notes if "understood" in note] == []


def test_phi_4_has_its_published_parameters():
    """arXiv:2412.08905, and the presets' phi-4: 14,659,507,200."""
    config = {**ALIKE["phi4"][1], "model_type": "phi4"}
    assert archcli.count_params(imported(config).model).totals["params"] == 14_659_507_200


@pytest.mark.parametrize(
    ("key", "value"), [("block_type", "parallel"), ("alibi", True), ("activation_type", "gelu")]
)
def test_what_a_first_olmo_may_say_and_no_release_does_is_refused(key, value):
    with pytest.raises(archcli.ArchError, match=f"{key} .* is not supported"):
        imported({**OLMO_1B, key: value})


SECTIONS = {"alpha": 1000.0, "factor": 1.0, "rope_theta": 10000.0, "xdrope_section": [16, 16, 16, 16]}
OCR = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "intermediate_size": 3584,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 120818,
    "tie_word_embeddings": True,
}
OCR_LAYER = 2 * 1024 * (16 + 8) * 128 + 2 * 128 + 3 * 1024 * 3584 + 2 * 1024


@pytest.mark.parametrize("flat", [True, False])
def test_hunyuan_ocr_has_the_parameters_of_its_class(flat):
    """Its first files are flat and have words of their own; the class, built on meta: 539,010,048."""
    words = {
        **OCR,
        "attention_head_dim": 128,
        "org_vocab_size": 120818,
        "rope_scaling": {"type": "xdrope", **SECTIONS},
    }
    nested = {"text_config": {**OCR, "head_dim": 128, "rope_parameters": {"rope_type": "xdrope", **SECTIONS}}}
    loaded = imported({"model_type": "hunyuan_vl", "vision_config": {}, **(words if flat else nested)})
    assert 120818 * 1024 + 24 * OCR_LAYER + 1024 == 539_010_048
    assert archcli.count_params(loaded.model).totals["params"] == 539_010_048
    position = loaded.model.groups[0].blocks[0].attention.position
    assert position.theta == 10000 * 1000 ** (128 / 126)
    assert [note for note in loaded.notes if "understood" in note] == []


def test_a_pruned_head_is_not_wider_than_the_table():
    config = {
        "model_type": "apertus1p5_text",
        "num_hidden_layers": 1,
        "vocab_size": 99,
        "output_vocab_size": 100,
    }
    with pytest.raises(archcli.ArchError, match="output_vocab_size 100 is beyond the vocab_size of 99"):
        imported(config)
