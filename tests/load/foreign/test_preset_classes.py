"""preset_classes.json has the model_type of each preset: that of its config.json where one is stored."""

import json
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

import archcli
from archcli.load.foreign.class_names import APART, PRESETS, class_names
from archcli.load.huggingface.registry import families
from archcli.load.huggingface.wrappers.table import WRAPPERS
from archcli.load.huggingface.wrappers.texts import TEXTS
from archcli.load.presets import presets
from archcli.load.source import load, load_given
from archcli.measure.weights.stored_bytes import tensors
from table import every_row

NAMES = presets()
RENEWAL = "pytest -n0 -m '' --renew tests/load/foreign/test_preset_classes.py"
TESTS = Path(__file__).parents[2]
UNPUBLISHED = {"afm-on-device", "chatglm2-6b", "cs336-small", "gpt3-175b", "palm-540b"} | {
    "transformer-base",
    "transformer-big",
}
"""Presets whose stored config.json is a class of their shape: their checkpoints have other names."""
PATTERNS = {
    "bamba-*": "bamba",
    "biogpt": "biogpt",
    "bloom-*": "bloom",
    "chatglm2-*": "chatglm",
    "command-a": "cohere2",
    "command-r-plus": "cohere",
    "ctrl": "ctrl",
    "dbrx": "dbrx",
    "deepseek-llm-*": "llama",
    "deepseek-r1-distill-qwen-*": "qwen2",
    "deepseek-v2": "deepseek_v2",
    "deepseek-v3.2": "deepseek_v32",
    "electra-*": "electra",
    "falcon-h1-*": "falcon_h1",
    "falcon-mamba-*": "falcon_mamba",
    "falcon-[14]*": "falcon",
    "falcon3-*": "llama",
    "flan-t5-*": "t5",
    "gemma-2-*": "gemma2",
    "gemma-3-*": "gemma3_text",
    "gemma-3n-*": "gemma3n_text",
    "gemma-4-*": "gemma4_text",
    "gemma-7b": "gemma",
    "glm-4.[567]*": "glm4_moe",
    "gpt-oss-*": "gpt_oss",
    "gpt2-*": "gpt2",
    "granite-3.0-*": "granite",
    "granite-4.0-h-*": "granitemoehybrid",
    "helium-*": "helium",
    "jamba-*": "jamba",
    "kimi-k2*": "kimi_k2",
    "kimi-linear-*": "kimi_linear",
    "lfm2-*": "lfm2",
    "lfm2-8b-a1b": "lfm2_moe",
    "llama-[123]*": "llama",
    "longcat-flash": "longcat_flash",
    "mamba-*": "mamba",
    "mamba2-*": "mamba2",
    "minimax-m2": "minimax_m2",
    "minimax-text-01": "minimax_text_01",
    "ministral-8b": "ministral",
    "mistral-*": "mistral",
    "mixtral-*": "mixtral",
    "mpt-*": "mpt",
    "nemotron-3-*": "nemotron_h",
    "nemotron-4-*": "nemotron",
    "nemotron-h-*": "nemotron_h",
    "nllb-200-600m": "m2m_100",
    "olmo-2-*": "olmo2",
    "olmo-7b": "olmo",
    "olmo-hybrid-*": "olmo_hybrid",
    "opt-*": "opt",
    "phi-1.5": "phi",
    "phi-3-medium-*": "phi3",
    "phi-4": "phi3",
    "pythia-*": "gpt_neox",
    "qwen1.5-moe-*": "qwen2_moe",
    "qwen2-*-a*": "qwen2_moe",
    "qwen2.5-*": "qwen2",
    "qwen3-*": "qwen3",
    "qwen3-*-a*": "qwen3_moe",
    "qwen3-next-*": "qwen3_next",
    "qwen3.5-*": "qwen3_5_text",
    "qwen3.5-*-a*": "qwen3_5_moe_text",
    "recurrentgemma-*": "recurrent_gemma",
    "rwkv-4-*": "rwkv",
    "smollm2-*": "llama",
    "stablelm-*": "stablelm",
    "starcoder": "gpt_bigcode",
    "starcoder2-*": "starcoder2",
    "t5-*": "t5",
    "tinyllama-*": "llama",
    "whisper-*": "whisper",
    "xlstm-*": "xlstm",
    "yi-*": "llama",
    "zamba-*": "zamba",
    "zamba2-*": "zamba2",
}
"""model_types of presets without a stored config.json, by patterns of names; the longest that fits counts."""


@cache
def stored():
    """The config.json of each preset that the tests hold."""
    configs = {path.stem: json.loads(path.read_text()) for path in (TESTS / "oracle/configs").glob("*.json")}
    for file in ("mappings/published.json", "oracle/multimodal.json", "presets/releases.json"):
        configs |= {name: entry["config"] for name, entry in json.loads((TESTS / file).read_text()).items()}
    return {name: config for name, config in configs.items() if name not in UNPUBLISHED}


def innermost(config):
    """The family of the language model in a config.json."""
    inner = next((config[key] for key in ("text_config", "llm_config") if config.get(key)), config)
    kind = inner.get("model_type") or config["model_type"]
    kind = WRAPPERS[kind].text if kind in WRAPPERS else kind
    return TEXTS[kind].family if kind in TEXTS else kind


def known():
    """The model_type of each preset of a known class."""
    kinds = {}
    for name in NAMES:
        fitting = [pattern for pattern in PATTERNS if fnmatchcase(name, pattern)]
        if name in stored():
            kinds[name] = innermost(stored()[name])
        elif fitting:
            kinds[name] = PATTERNS[max(fitting, key=len)]
    return kinds


def test_the_types_are_those_of_the_stored_files(renew):
    made = known()
    if renew:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(kind)}" for name, kind in sorted(made.items()))
        PRESETS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    assert json.loads(PRESETS.read_text(encoding="utf-8")) == made, RENEWAL


def test_every_pattern_is_of_a_preset_without_a_stored_file():
    used = {
        max((pattern for pattern in PATTERNS if fnmatchcase(name, pattern)), key=len, default="")
        for name in NAMES
        if name not in stored()
    }
    assert PATTERNS.keys() <= used


WITHOUT_DEFAULTS = {"minimax-text-01"}
"""Presets whose class has no default config, by which the names of its layers are known."""
ALIKE = {
    "kimi-linear-48b-a3b": {"mixer.q_proj"},
    # attn_hc of either kind of layer: parameters, no modules that a list could name
    "glm-5.3-flash": {"mixer_hyper", "mixer_hyper_gates.base", "mixer_hyper_gates.scale"},
}
"""Matrices that layers of two kinds call alike."""


@pytest.mark.long
@every_row("name", sorted(json.loads(PRESETS.read_text()).keys() - WITHOUT_DEFAULTS))
def test_every_matrix_of_a_preset_has_a_name_in_its_class(name):
    loaded = load(name)
    names = class_names(loaded).weights
    matrices = [path.removesuffix(".weight") for path in tensors(loaded.model)[0] if "norm" not in path]
    unnamed = {path for path in matrices if ".lora_" not in path and not any(names.checkpoint_names(path))}
    unnamed = {path for path in unnamed if not any(names.checkpoint_names(f"{path}.weight"))}
    assert {path.split(".", 2)[2] for path in unnamed} == ALIKE.get(name, set())


def test_an_adapter_of_an_encoder_decoder_has_targets_by_its_class():
    """q and v of T5-small: 6 layers of an encoder, 6 of a decoder with two attentions, 512 wide."""
    adapter = {
        "peft_type": "LORA",
        "base_model_name_or_path": "t5-small",
        "r": 4,
        "target_modules": ["q", "v"],
    }
    trained = archcli.count_params(load_given(adapter).model).totals["trainable_params"]
    assert trained == (6 + 2 * 6) * 2 * 4 * (512 + 512)


def test_an_adapter_of_numbered_modules_has_targets_by_its_class():
    """CTRL calls its network ffn.0 and ffn.2: 48 layers, 1,280 to 8,192."""
    adapter = {"peft_type": "LORA", "base_model_name_or_path": "ctrl", "r": 4, "target_modules": ["0"]}
    trained = archcli.count_params(load_given(adapter).model).totals["trainable_params"]
    assert trained == 48 * 4 * (1280 + 8192)


def test_types_whose_experts_are_apart_are_known():
    """In transformers 4; gptsan-japanese is gone from 5."""
    apart = set(json.loads(APART.read_text())["model_types"])
    assert apart - families().keys() - TEXTS.keys() == {"gptsan-japanese"}
