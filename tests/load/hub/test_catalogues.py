"""Names of models as people type them: Ollama's tags, repositories of the hub, sizes, formats."""

import time

import pytest

from archcli.errors import ArchError
from archcli.load.hub.aliases import CHANGED, FAMILIES, TAGS, respelled
from archcli.load.hub.catalogues import OF_BITS, OF_PROGRAMS, CatalogueName, of_catalogue
from archcli.load.presets import presets
from archcli.load.source import load
from archcli.modules import settings
from archcli.modules.stored.formats import is_format, parse_format
from hub.cache import CONFIG, SHA, cached
from table import every_row, sampled_rows


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """A hub's cache without models, and no files around."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)


PRESETS = {
    "qwen3-8b": "qwen3-8b",
    "gpt-oss:20b": "gpt-oss-20b",
    "Qwen3 8B": "qwen3-8b",
    "qwen_3_8b": "qwen3-8b",
    "llama3.1:8b": "llama-3.1-8b",
    "llama 3.1 70b": "llama-3.1-70b",
    "deepseek v3": "deepseek-v3",
    "deepseek-r1:671b": "deepseek-r1",
    "gemma3:27b": "gemma-3-27b",
    "mixtral 8x7b": "mixtral-8x7b",
    "mixtral:8x22b": "mixtral-8x22b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Meta-Llama-3-8B": "llama-3-8b",
    "meta-llama/Llama-2-7b-chat-hf": "llama-2-7b",
    "Qwen/Qwen3-8B-GGUF": "qwen3-8b",
    "unsloth/Llama-3.3-70B-Instruct-GGUF": "llama-3.3-70b",
    "lmstudio-community/Qwen3-8B-GGUF": "qwen3-8b",
    "ggml-org/gpt-oss-20b-GGUF": "gpt-oss-20b",
    "https://huggingface.co/Qwen/Qwen3-8B": "qwen3-8b",
    "google/gemma-3-27b-it": "gemma-3-27b",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistral-7b-v0.3",
    "deepseek-ai/DeepSeek-V3-0324": "deepseek-v3",
    "moonshotai/Kimi-K2-Instruct": "kimi-k2",
    "zai-org/GLM-4.5-Air": "glm-4.5-air",
    "mistralai/Mistral-Nemo-Instruct-2407": "mistral-nemo-12b",
    "mistralai/Mistral-Large-Instruct-2411": "mistral-large-123b",
    "deepseek-ai/DeepSeek-R1-0528": "deepseek-r1",
    "deepseek-ai/DeepSeek-V3.2-Exp": "deepseek-v3.2",
    "allenai/OLMo-2-1124-7B-Instruct": "olmo-2-7b",
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": "tinyllama-1.1b",
    "google-t5/t5-base": "t5-base",
    "qwen3:30b": "qwen3-30b-a3b-2507",  # since August 2025
    "qwen3-next:80b": "qwen3-next-80b-a3b",
    "qwen3-coder:480b": "qwen3-coder-480b-a35b",
    "qwen3-30b": "qwen3-30b-a3b",
    "qwen2.5-coder:32b": "qwen2.5-32b-instruct",
    "Qwen/Qwen2.5-Coder-7B-Instruct": "qwen2.5-7b-instruct",
    "Qwen/Qwen2.5-7B-Instruct-GGUF": "qwen2.5-7b-instruct",
    "Qwen/Qwen2.5-7B": "qwen2.5-7b",
    "QwQ-32B": "qwq-32b",
    "qwq:32b": "qwq-32b",
    "deepseek-r1:7b": "deepseek-r1-distill-qwen-7b",
    "deepseek-r1:32b": "qwen2.5-32b",
    "Qwen/Qwen3.6-35B-A3B": "qwen3.6-35b-a3b",
    "unsloth/Qwen3.6-27B-GGUF": "qwen3.6-27b",
    "Qwen/Qwen3-Coder-Next": "qwen3-coder-next",
    "zai-org/GLM-4.7-Flash": "glm-4.7-flash",
    "moonshotai/Kimi-K2.6": "kimi-k2.5",
    "MiniMaxAI/MiniMax-M2.1": "minimax-m2",
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": "llama-4-maverick",
    "mistralai/Devstral-Small-2505": "devstral-small-24b",
    "mistralai/Devstral-Small-2-24B-Instruct-2512": "devstral-small-2-24b",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": "mistral-small-3.1-24b",
    "microsoft/Phi-4-mini-instruct": "phi-4-mini",
    "gemma4:12b": "gemma-4-12b",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B": "nemotron-3-super-120b-a12b",
    "deepseek-r1:70b": "llama-3.3-70b",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": "qwen2.5-32b",
    "llama3.1": "llama-3.1-8b",
    "llama3.2:latest": "llama-3.2-3b",
    "mistral": "mistral-7b-v0.3",
    "mistral:7b": "mistral-7b-v0.3",
    "mistral-nemo": "mistral-nemo-12b",
    "mistralai/Mistral-Nemo-Base-2407": "mistral-nemo-12b",
    "mistralai/Pixtral-12B-2409": "pixtral-12b",
    "bigscience/bloom": "bloom-176b",
    "nomic-embed-text:latest": "nomic-embed-text-v1.5",
    "mistral-large": "mistral-large-123b",
    "phi4:14b": "phi-4",
    "phi3:mini": "phi-3-mini-4k",
    "llama4": "llama-4-scout",
    "tinyllama": "tinyllama-1.1b",
    "llama 405b": "llama-3.1-405b",
    "qwen 8b": "qwen3-8b",
    "qwen 235b": "qwen3-235b-a22b",
    "nemotron-3-nano": "nemotron-3-nano-30b-a3b",
}


@sampled_rows("name", PRESETS, 4)
def test_a_name_stands_for_a_preset(name):
    found = of_catalogue(name)
    assert (found.model, found.dtype) == (PRESETS[name], "")
    said = "" if respelled(name) else f"{name} is taken as the preset {PRESETS[name]}"
    assert found.note == said


LONGER = {
    "Qwen/Qwen3-30B-A3B-Instruct-2507": ("qwen3-30b-a3b-2507", 10_000_000),
    "Qwen/Qwen3-30B-A3B-Thinking-2507": ("qwen3-30b-a3b-2507", 10_000_000),
    "unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF": ("qwen3-30b-a3b-2507", 10_000_000),
    "qwen3-30b-a3b-instruct-2507": ("qwen3-30b-a3b-2507", 10_000_000),
    "qwen3:30b-a3b-thinking-2507-q4_K_M": ("qwen3-30b-a3b-2507", 10_000_000),
    "Qwen/Qwen3-235B-A22B-Thinking-2507": ("qwen3-235b-a22b-2507", 5_000_000),
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": ("qwen3-235b-a22b-2507", 5_000_000),
    "qwen3-4b-instruct-2507": ("qwen3-4b-2507", 5_000_000),
    "Qwen3-4B-Thinking-2507": ("qwen3-4b-2507", 5_000_000),
    "qwen3-coder": ("qwen3-coder-30b-a3b", 10_000_000),
    "qwen3-coder:30b": ("qwen3-coder-30b-a3b", 10_000_000),
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": ("qwen3-coder-30b-a3b", 10_000_000),
}
"""Releases of a size that an older preset has, with `rope_theta` of their config.json.

max_position_embeddings is 262144 in all, and 40960 in those of the older ones.
"""


@every_row("name", LONGER)
def test_a_newer_release_has_its_own_context(name):
    found, (preset, theta) = of_catalogue(name), LONGER[name]
    model = load(found.model).model
    assert (found.model, model.max_seq_len) == (preset, 262_144)
    assert {value for path, value in settings(model) if path.endswith("position.theta")} == {theta}


CONFIGS = {
    # max_position_embeddings or seq_length, vocab_size, rope_theta (10,000 x rope_ratio), key/value heads of
    # the config.json; of Phi-3.5-mini as printed by MLC LLM, of GLM by LLaMA-Factory, of the tag qwen3:30b by
    # its digest, which is that of 30b-a3b-thinking-2507
    "deepseek-r1:8b": (131_072, 151_936, 1_000_000, 8),
    "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B": (131_072, 151_936, 1_000_000, 8),
    "unsloth/DeepSeek-R1-0528-Qwen3-8B-GGUF:Q4_K_M": (131_072, 151_936, 1_000_000, 8),
    "phi3.5": (131_072, 32_064, 10_000, 32),
    "microsoft/Phi-3.5-mini-instruct": (131_072, 32_064, 10_000, 32),
    "microsoft/Phi-3-mini-128k-instruct": (131_072, 32_064, 10_000, 32),
    "THUDM/glm-4-9b-chat": (131_072, 151_552, 5_000_000, 2),
    "zai-org/glm-4-9b-chat-hf": (131_072, 151_552, 5_000_000, 2),
    "glm4:9b": (131_072, 151_552, 5_000_000, 2),
    "THUDM/glm-4-9b-chat-1m": (1_048_576, 151_552, 100_000_000, 4),
    "THUDM/glm-4-9b": (8_192, 151_552, 10_000, 2),
    "Qwen/Qwen2-7B-Instruct": (32_768, 152_064, 1_000_000, 4),
    "Qwen/Qwen2-7B": (131_072, 152_064, 1_000_000, 4),
    "qwen2:7b": (32_768, 152_064, 1_000_000, 4),
    "Qwen/Qwen2-57B-A14B-Instruct": (32_768, 151_936, 1_000_000, 4),
    "qwen2.5:7b": (32_768, 152_064, 1_000_000, 4),
    "qwen2.5:72b": (32_768, 152_064, 1_000_000, 8),
    "qwen3:30b": (262_144, 151_936, 10_000_000, 4),
    "qwen3:8b": (40_960, 151_936, 1_000_000, 8),
    "mistralai/Mixtral-8x22B-Instruct-v0.1": (65_536, 32_768, 1_000_000, 8),
    "meta-llama/Llama-4-Scout-17B-16E": (262_144, 202_048, 500_000, 8),
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": (10_485_760, 202_048, 500_000, 8),
}


@sampled_rows("name", CONFIGS, 4)
def test_a_name_hides_nothing_that_its_config_has_otherwise(name):
    model = load(name).model
    values = dict(settings(model)).items()
    theta = next((value for path, value in values if path.endswith("position.theta")), 10_000)
    heads = next(value for path, value in values if path.endswith(("n_kv_heads", ".n_heads")))
    kv_heads = next((value for path, value in values if path.endswith("n_kv_heads")), heads)
    assert (model.max_seq_len, model.vocab_size, theta, kv_heads) == CONFIGS[name]


def test_the_note_says_what_changes_and_set_goes_after_it():
    loaded = load("qwen2:7b", ["max_seq_len=1000"])
    assert loaded.notes[0] == "qwen2:7b is taken as the preset qwen2-7b with max_seq_len 32768"
    assert loaded.model.max_seq_len == 1_000


OF_ANOTHER_RELEASE = (
    *("Qwen/Qwen3-30B-A3B-Base", "Qwen/Qwen3-8B-Base"),  # 32,768 tokens, not 40,960
    *(
        "Qwen/QwQ-32B-Preview",
        "smollm:1.7b",
        "HuggingFaceTB/SmolLM-1.7B",
    ),  # 32,768, not 40,960; 2,048, not 8,192
    *("Qwen/Qwen2.5-7B-Instruct-1M", "01-ai/Yi-34B-200K"),
    *("Qwen/Qwen3-14B-2707", "meta-llama/Llama-3.1-8B-Instruct-2512"),  # dates of nothing known
)


@every_row("name", OF_ANOTHER_RELEASE)
def test_another_release_is_not_taken_for_a_preset(name):
    assert of_catalogue(name) == CatalogueName(name)


FORMATS = {
    "llama3.1:70b-instruct-q4_K_M": ("llama-3.1-70b", "q4_k_m"),
    "qwen3:8b-q8_0": ("qwen3-8b", "q8_0"),
    "qwen3:8b-fp16": ("qwen3-8b", "fp16"),
    "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M": ("llama-3.1-8b", "q4_k_m"),
    "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:IQ4_XS": ("llama-3.2-3b", "iq4_xs"),
    "qwen3-8b-q4_k_m": ("qwen3-8b", "q4_k_m"),
    "Qwen3 14B Q5_K_S": ("qwen3-14b", "q5_k_s"),
    "q6_k qwen3-14b": ("qwen3-14b", "q6_k"),
    "qwen3 8b q4": ("qwen3-8b", "q4_k_m"),
    "llama 3.1 70b 4-bit": ("llama-3.1-70b", "q4_k_m"),
    "Qwen3 14b int4": ("qwen3-14b", "q4_k_m"),
    "mlx-community/Qwen3-8B-4bit": ("qwen3-8b", "mlx-4bit"),
    "Qwen/Qwen3-8B-FP8": ("qwen3-8b", "fp8"),
    "neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8-dynamic": ("llama-3.1-70b", "fp8"),
    "Qwen/Qwen3-8B-AWQ": ("qwen3-8b", "awq-int4"),
    "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4": ("llama-3.1-8b", "awq-int4"),
    "TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ": ("mixtral-8x7b", "gptq-int4"),
    "unsloth/Llama-3.2-3B-Instruct-bnb-4bit": ("llama-3.2-3b", "nf4"),
    "nvidia/Llama-3.1-405B-Instruct-NVFP4": ("llama-3.1-405b", "nvfp4"),
    "gemma3:27b-it-qat": ("gemma-3-27b", "q4_0"),
    "google/gemma-3-27b-it-qat-q4_0-unquantized": ("gemma-3-27b", ""),
    "unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL": ("qwen3-8b", "ud-q4_k_xl"),
    # few of Unsloth's mixtures are known
    "unsloth/Qwen3-8B-GGUF:UD-Q3_K_S": ("qwen3-8b", "q3_k_s"),
    "unsloth/Qwen3-8B-GGUF:IQ2_M": ("qwen3-8b", "iq2_m"),
    "mlx-community/Qwen3-8B-6bit": ("qwen3-8b", "mlx-6bit"),
}


@every_row("name", FORMATS)
def test_a_format_in_a_name_is_that_of_dtype(name):
    found = of_catalogue(name)
    assert (found.model, found.dtype) == FORMATS[name]


def test_what_was_taken_for_granted_is_said():
    assert of_catalogue("qwen3 8b q4").note == (
        "qwen3 8b q4 is taken as the preset qwen3-8b; q4 is taken as q4_k_m"
    )
    assert (
        "; the format ud-q4_k_xs is not known, did you mean q4_k_m, "
        in of_catalogue("qwen3-8b:ud-q4_k_xs").note
    )


UNKNOWN = (
    *("Qwen3.7-35B-A3B", "llama-3.1-9b", "llama", "8b", "foo-bar", "solar", "codellama:7b", "phi3.5-vision"),
    # of which other sizes and kinds are no presets: flan-t5-small, stablelm-2-12b, jamba-1.5-large
    *(
        "whisper-large",
        "bert-base",
        "flan-t5",
        "stablelm-2",
        "jamba-1.5",
        "deepseek-llm",
        "nllb-200",
        "exaone-4.0",
    ),
    *(
        "NousResearch/Hermes-3-Llama-3.1-8B",
        "hf://Qwen/Qwen3-8B",
        "-",
        "",
        "a\0b",
        "x" * 9999,
        "missing.gguf",
    ),
    *("./Qwen3-8B", "models/Qwen3-8B-GGUF/x.gguf", "Llama-3.1-8B-Instruct-Q4_K_M.gguf", "q4_k_m", ":", "/"),
)


@sampled_rows("name", UNKNOWN, 4)
def test_any_other_name_stays_as_it_is(name):
    assert of_catalogue(name) == CatalogueName(name)


def test_every_preset_is_itself():
    assert [of_catalogue(name) for name in presets()] == [CatalogueName(name) for name in presets()]


SEVERAL = {
    "llama 70b": "did you mean llama-2-70b, llama-3-70b, llama-3.1-70b or llama-3.3-70b?",
    "gemma 27b": "did you mean gemma-2-27b or gemma-3-27b?",
    "granite-4.0": "did you mean granite-4.0-h-tiny or granite-4.0-micro?",
    "command-r": "did you mean command-r-plus or command-r-v01?",
    "llama 70b q4_k_m": "did you mean llama-2-70b, llama-3-70b, ",
}


@every_row("name", SEVERAL)
def test_a_name_of_several_presets_is_answered_with_them(name):
    with pytest.raises(ArchError, match="may be several presets; did you mean ") as error:
        of_catalogue(name)
    assert SEVERAL[name] in str(error.value)


def test_files_and_what_is_in_the_hubs_cache_keep_their_meaning(tmp_path):
    cached(tmp_path / "hub", "Qwen/Qwen3-8B-FP8", SHA, CONFIG)
    cached(tmp_path / "hub", "org/tuned", SHA, CONFIG)
    assert of_catalogue("Qwen/Qwen3-8B-FP8") == CatalogueName("Qwen/Qwen3-8B-FP8")
    assert of_catalogue("org/tuned:Q4_K_M") == CatalogueName("org/tuned", "q4_k_m")
    assert of_catalogue("hf.co/org/tuned").model == "org/tuned"
    assert load(of_catalogue("org/tuned:Q4_K_M").model).model.vocab_size == CONFIG["vocab_size"]
    (tmp_path / "llama3.1").mkdir()
    assert of_catalogue("llama3.1") == CatalogueName("llama3.1")


@pytest.mark.parametrize("name", ["codegemma", "codegemma:7b", "medgemma:27b", "dolphin-mixtral"])
def test_a_hint_names_no_other_model(name):
    with pytest.raises(ArchError) as error:
        load(name)
    assert error.value.problems[0].hint == "`archcli list` names the presets"


@pytest.mark.long
def test_the_tables_lead_to_presets_and_formats():
    assert {*FAMILIES.values(), *(preset for preset, *_ in (*CHANGED.values(), *TAGS.values()))} <= {
        *presets()
    }
    assert not [name for name in {*FAMILIES, *CHANGED} if respelled(name)]
    assert all(
        is_format(dtype) or parse_format(dtype) for dtype in {*OF_BITS.values(), *OF_PROGRAMS.values()}
    )


def test_hostile_names_take_no_time():
    start = time.process_time()
    for name in ("q4_" * 33, "-" * 99, "q1-0-1-k-s-m" * 8, "deepseek-" * 11, "[" * 50, "(?:" * 30):
        of_catalogue(name)
    assert time.process_time() - start < 10
