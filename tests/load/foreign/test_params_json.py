"""params.json of Meta, Mistral, executorch and llama2.c, DeepSeek's inference configs: published figures."""

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from archcli.errors import ArchError
from archcli.load.source import load, load_text
from archcli.measure.params import count_params
from table import every_row, sampled_rows

META = {"multiple_of": 256, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-5, "dim": 4096}
LLAMA_3 = {**META, "n_kv_heads": 8, "vocab_size": 128256, "ffn_dim_multiplier": 1.3, "multiple_of": 1024}
MISTRAL = {
    "dim": 4096,
    "n_layers": 32,
    "head_dim": 128,
    "hidden_dim": 14336,
    "n_heads": 32,
    "n_kv_heads": 8,
    "norm_eps": 1e-5,
    "vocab_size": 32000,
}
DEEPSEEK = {
    "vocab_size": 102400,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_dense_layers": 1,
    "n_shared_experts": 2,
    "n_activated_experts": 6,
}
V3 = {
    **DEEPSEEK,
    "vocab_size": 129280,
    "dim": 7168,
    "inter_dim": 18432,
    "moe_inter_dim": 2048,
    "n_layers": 61,
    "n_dense_layers": 3,
    "n_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "n_activated_experts": 8,
    "n_expert_groups": 8,
    "n_limited_groups": 4,
    "route_scale": 2.5,
    "score_func": "sigmoid",
    "q_lora_rank": 1536,
    "dtype": "fp8",
}
V2 = {
    **DEEPSEEK,
    "dim": 5120,
    "inter_dim": 12288,
    "moe_inter_dim": 1536,
    "n_layers": 60,
    "n_heads": 128,
    "n_routed_experts": 160,
    "n_expert_groups": 8,
    "n_limited_groups": 3,
    "route_scale": 16.0,
    "q_lora_rank": 1536,
}
V2_LITE = {
    **DEEPSEEK,
    "dim": 2048,
    "inter_dim": 10944,
    "moe_inter_dim": 1408,
    "n_layers": 27,
    "n_heads": 16,
    "n_routed_experts": 64,
    "route_scale": 1.0,
    "q_lora_rank": 0,
    "mscale": 0.707,
}
STORIES_15M = {
    "dim": 288,
    "n_layers": 6,
    "n_heads": 6,
    "n_kv_heads": 6,
    "vocab_size": 32000,
    "multiple_of": 32,
    "max_seq_len": 256,
    "dropout": 0.0,
}
CODESTRAL_MAMBA = {
    "dim": 4096,
    "n_layers": 64,
    "vocab_size": 32768,
    "n_groups": 8,
    "rms_norm": True,
    "residual_in_fp32": True,
    "fused_add_norm": True,
    "pad_vocab_size_multiple": 1,
    "tie_embeddings": False,
    "model_type": "mamba",
}


def executorch(**sizes):
    """A file of executorch's examples/models, whose multiplier counts for nothing beside hidden_dim."""
    return {"ffn_dim_multiplier": 1, "use_scaled_rope": False, "use_hf_rope": True, "norm_eps": 1e-6, **sizes}


QWEN_2_5 = executorch(
    dim=896,
    hidden_dim=4864,
    n_heads=14,
    n_kv_heads=2,
    n_layers=24,
    vocab_size=151936,
    attention_qkv_bias=True,
)
QWEN_3 = executorch(
    dim=1024,
    hidden_dim=3072,
    n_heads=16,
    head_dim=128,
    n_kv_heads=8,
    n_layers=28,
    vocab_size=151936,
    attention_qkv_bias=False,
    use_qk_norm=True,
    qk_norm_before_rope=True,
)
SMOLLM_3 = executorch(
    dim=2048,
    hidden_dim=11008,
    n_heads=16,
    n_kv_heads=4,
    n_layers=36,
    vocab_size=128256,
    no_rope_layer_interval=4,
)
PHI_4_MINI = executorch(
    dim=3072,
    hidden_dim=8192,
    n_heads=24,
    n_kv_heads=8,
    n_layers=32,
    vocab_size=200064,
    partial_rotary_factor=0.75,
)
UNTIED = (
    "the file does not say whether the head is the token table: counted apart, "
    "--set embedding.tied=true counts it once"
)
TIED, SPM = ("embedding.tied=true",), ("vocab_size=32000",)
# parameters of the checkpoints that their authors published; of Phi-4-mini the sum of its safetensors
PUBLISHED = {
    "llama-2-7b": ({**META, "vocab_size": -1}, SPM, 6_738_415_616),
    "llama-2-70b": (
        {
            **META,
            "dim": 8192,
            "n_heads": 64,
            "n_kv_heads": 8,
            "n_layers": 80,
            "multiple_of": 4096,
            "ffn_dim_multiplier": 1.3,
            "vocab_size": -1,
        },
        SPM,
        68_976_648_192,
    ),
    "llama-3-8b": (LLAMA_3, (), 8_030_261_248),
    "llama-3.1-405b": (
        {
            **LLAMA_3,
            "dim": 16384,
            "n_heads": 128,
            "n_layers": 126,
            "ffn_dim_multiplier": 1.2,
            "multiple_of": 4096,
            "use_scaled_rope": True,
        },
        (),
        405_853_388_800,
    ),
    "llama-3.2-1b": (
        {**LLAMA_3, "dim": 2048, "n_layers": 16, "ffn_dim_multiplier": 1.5, "multiple_of": 256},
        TIED,
        1_235_814_400,
    ),
    "mistral-7b-v0.1": ({**MISTRAL, "sliding_window": 4096}, (), 7_241_732_096),
    "mixtral-8x7b": ({**MISTRAL, "moe": {"num_experts_per_tok": 2, "num_experts": 8}}, (), 46_702_792_704),
    "mistral-nemo": ({**MISTRAL, "dim": 5120, "n_layers": 40, "vocab_size": 131072}, (), 12_247_782_400),
    "codestral-mamba": (CODESTRAL_MAMBA, (), 7_285_403_648),
    "deepseek-v3": (V3, (), 671_026_404_352),
    "deepseek-v2": (V2, (), 235_741_434_880),
    "deepseek-v2-lite": (V2_LITE, (), 15_706_484_224),
    "qwen2.5-0.5b": (QWEN_2_5, TIED, 494_032_768),
    "qwen3-0.6b": (QWEN_3, TIED, 596_049_920),
    "smollm3-3b": (SMOLLM_3, TIED, 3_075_098_624),
    "phi-4-mini": (PHI_4_MINI, TIED, 3_836_021_760),
}


def params(config, *overrides, name="f.json"):
    return count_params(load_text(json.dumps(config), name, overrides).model, "bf16").totals["params"]


@every_row(("config", "overrides", "published"), PUBLISHED.values(), ids=PUBLISHED)
def test_parameters_are_those_published(config, overrides, published):
    assert params(config, *overrides) == published


PHI_4 = {"dim": 5120, "n_layers": 40, "n_heads": 40, "n_kv_heads": 10, "vocab_size": 100352}


@every_row(
    "word", ["hidden_dim", "intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner", "d_ff", "mlp_dim"]
)
def test_a_width_of_the_network_is_read_by_any_word(word):
    """Phi-4, 14,659,507,200 parameters: tables apart, 40 layers of attention and a gated network, norms."""
    attention = 5120 * (40 + 2 * 10 + 40) * 128
    layer = attention + 3 * 5120 * 17920 + 2 * 5120
    read = load_text(json.dumps({**PHI_4, word: 17920}), "params.json")
    assert (
        count_params(read.model).totals["params"] == 2 * 100352 * 5120 + 40 * layer + 5120 == 14_659_507_200
    )
    assert not any("not understood" in note or "made" in note for note in read.notes)


@every_row("word", ["num_key_value_heads", "num_kv_heads", "n_kv"])
def test_heads_of_keys_are_read_by_any_word(word):
    config = {key: value for key, value in PHI_4.items() if key != "n_kv_heads"}
    read = load_text(json.dumps({**config, "hidden_dim": 17920, word: 10}), "params.json")
    assert count_params(read.model).totals["params"] == 14_659_507_200


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"ffn_dim": 17920, "hidden_dim": 17408}, "hidden_dim 17408 and ffn_dim 17920 state one size"),
        ({"expert_hidden_dim": 512}, "expert_hidden_dim 512 is a size that is not read"),
        ({"ffn_width": 17920}, "ffn_width 17,920 is a size that is not read"),
        ({"n_kv_heads_local": 2}, "n_kv_heads_local 2 is a size that is not read"),
    ],
)
def test_a_size_that_is_not_read_is_refused_and_none_made_up(more, what):
    with pytest.raises(ArchError, match=what):
        load_text(json.dumps({**PHI_4, **more}), "params.json")


def test_stories_15m_of_llama2c_by_hand():
    """The head is the table; the network's width is 2/3 of 4 * 288, which is 768, a multiple of 32."""
    layer = 4 * 288 * 288 + 3 * 288 * 768 + 2 * 288
    assert params(STORIES_15M) == 32000 * 288 + 6 * layer + 288


def test_experts_of_executorch_by_hand():
    """`moe: true` of ModelArgs: a router and three matrices an expert."""
    config = {
        "dim": 64,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 96,
        "vocab_size": 100,
        "moe": True,
        "num_experts": 4,
        "num_activated_experts": 2,
    }
    layer = 4 * 64 * 64 + 64 * 4 + 4 * 3 * 64 * 96 + 2 * 64
    assert params(config) == 2 * 100 * 64 + 2 * layer + 64


def test_windows_of_a_list_repeat_over_the_layers():
    loaded = load_text(json.dumps({**MISTRAL, "sliding_window": [None, 512, 512, 512]}), "f.json")
    pattern = [layer.attention.window for layer in loaded.model.groups[0].pattern]
    assert (loaded.model.groups[0].n_layers, pattern) == (32, [None, 512, 512, 512])


def test_scaled_angles_are_those_of_metas_apply_scaling():
    """scale_factor 8, low_freq_factor 1, high_freq_factor 4, old_context_len 8192, of llama-models."""
    loaded = load_text(json.dumps({**LLAMA_3, "use_scaled_rope": True, "rope_theta": 500000.0}), "f.json")
    position = loaded.model.groups[0].layer.attention.position
    scaling = position.scaling
    stated = (scaling.factor, scaling.low_freq_factor, scaling.high_freq_factor, scaling.original_max_seq_len)
    assert (position.theta, stated) == (500000.0, (8, 1, 4, 8192))
    plain = load_text(json.dumps(LLAMA_3), "f.json").model.groups[0].layer.attention.position
    assert plain.scaling.kind == "none"


@every_row(
    ("config", "scores", "group_score", "scale"), [(V3, "sigmoid", "top2", 2.5), (V2, "softmax", "max", 16)]
)
def test_the_router_of_deepseek(config, scores, group_score, scale):
    """Gate.forward of inference/model.py: the best of a group, or with a bias the sum of its best two."""
    router = load_text(json.dumps(config), "f.json").model.groups[-1].layer.ffn.router
    assert (router.scores, router.group_score, router.scale) == (scores, group_score, scale)


def test_fp8_of_deepseek_is_a_scale_for_each_square():
    """The stored bytes of V3 are those of its config.json, whose quantization_config says the same."""
    loaded = load_text(json.dumps(V3), "f.json")
    config = Path(__file__).parents[1] / "huggingface" / "real_files" / "deepseek-v3.json"
    assert loaded.model.quantization == load(str(config)).model.quantization is not None


@pytest.mark.parametrize("name", ["params.json", "config.json"])
def test_a_folder_is_read_by_the_file_it_holds(name, tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / name).write_text(json.dumps(LLAMA_3))
    loaded = load(str(folder))
    assert (loaded.name, loaded.source) == ("my-model", str(folder / name))
    assert count_params(loaded.model, "bf16").totals["params"] == 8_030_261_248


def test_what_the_file_does_not_say_is_noted():
    notes = load_text(json.dumps(LLAMA_3), "f.json").notes
    assert notes == (
        "the network's width is 14,336: 8/3 of dim times 1.3, rounded up to a multiple of 1,024",
        UNTIED,
    )
    assert load_text(json.dumps({**MISTRAL, "tied_embeddings": True}), "f.json").notes == ()
    assert "key 'novelty' was not understood" in " ".join(
        load_text(json.dumps({**MISTRAL, "novelty": 3}), "f.json").notes
    )


def test_no_length_is_made_up():
    """The class's default of max_position_embeddings is no statement of the file's."""
    assert load_text(json.dumps(LLAMA_3), "f.json").model.max_seq_len is None
    assert load_text(json.dumps(STORIES_15M), "f.json").model.max_seq_len == 256


REFUSED = {
    "vocabulary": ({**META, "vocab_size": -1}, "size of the vocabulary is not stated: the tokenizer"),
    "no-vocabulary": (META, "size of the vocabulary is not stated: the tokenizer"),
    "llama-4": ({**LLAMA_3, "moe_args": {"num_experts": 16}}, "moe_args stands for Llama 4's experts"),
    "vision": ({**LLAMA_3, "vision_num_cross_attention_layers": 8}, "layers that attend to images"),
    "gemma": ({**LLAMA_3, "norm_type": "gemma3"}, "norm_type 'gemma3' is not supported"),
    "convolutions": ({**LLAMA_3, "layer_types": ["conv"]}, "layers of several kinds"),
    "deepseek-v4": ({**V3, "hc_mult": 4}, "hc_mult stands for DeepSeek-V4"),
    "two-families": ({**LLAMA_3, "attention_qkv_bias": True, "use_qk_norm": True}, "keys of qwen2 and qwen3"),
    "large-3": ({**MISTRAL, "moe": {"num_experts": 8, "expert_hidden_dim": 4}}, "experts of another width"),
    "a-list": ({**LLAMA_3, "dim": [4096]}, "dim must be a whole number above 0, not [4096]"),
    "huge": ({**LLAMA_3, "dim": 10**30}, "dim is beyond reason"),
    "layers": ({**LLAMA_3, "n_layers": 10**7}, "is beyond reason"),
    "multiplier": ({**LLAMA_3, "ffn_dim_multiplier": 1e300}, "ffn_dim_multiplier 1e+300 is beyond reason"),
    "nan": ({**LLAMA_3, "ffn_dim_multiplier": float("nan")}, "ffn_dim_multiplier must be a number, not nan"),
    "windows": ({**MISTRAL, "sliding_window": [1, 2]}, "sliding_window [1, 2] does not repeat"),
}


@every_row(("config", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_in_a_line(config, said, refused):
    (line,) = refused(json.dumps(config, indent=1))
    assert said in line


WRONG = ("x", [1, [2]], {"a": 1}, True, None, -1, 0, float("nan"), float("inf"), 10**30, 1e308, [None])
WHOLE = (
    LLAMA_3,
    {**MISTRAL, "sliding_window": 8, "moe": {"num_experts": 8}},
    V3,
    STORIES_15M,
    CODESTRAL_MAMBA,
)


@sampled_rows("config", WHOLE, 4)
def test_no_wrong_type_is_a_traceback(config):
    for key in config:
        for value in WRONG:
            start = time.process_time()
            with suppress(ArchError):
                load_text(json.dumps({**config, key: value}), "f.json")
            assert time.process_time() - start < 1


def test_200_mb_are_not_read(tmp_path):
    path = tmp_path / "params.json"
    path.write_text(json.dumps(LLAMA_3)[:-1])
    with path.open("r+b") as file:
        file.truncate(200 << 20)
    with pytest.raises(ArchError, match="larger than 8 MiB"):
        load(str(path))


def test_a_config_of_transformers_with_the_same_words_is_none(refused):
    """The first files of DistilBERT have dim, n_layers and n_heads, and no model_type."""
    config = {"dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072, "tie_weights_": True}
    assert "key 'model_type' is missing" in refused(json.dumps(config))[0]
