"""Defaults of towers that are written down by hand are those of the config classes of transformers."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
import transformers

from archcli.load.huggingface import towers
from table import every_row

PACKAGE = towers.__name__
SIZES = {"hidden_size", "hidden_sizes", "embed_dim", "num_layers", "d_model"}
VISION, AUDIO = "vision_config", "audio_config"
OWN: dict[str, tuple[str, str]] = {
    "crossed.DAVIT": ("florence2", VISION),
    "crossed.GIT": ("git", VISION),
    "crossed.MLLAMA": ("mllama", VISION),
    "dual.GENERATOR": ("janus", "vq_config"),
    "dual.JANUS": ("janus", VISION),
    "heard.GLM_ASR": ("glmasr", AUDIO),
    "heard.GRANITE": ("granite_speech", "encoder_config"),
    "heard.PHI4": ("phi4_multimodal", AUDIO),
    "heard.QFORMER": ("granite_speech", "projector_config"),
    "heard.REALTIME": ("voxtral_realtime", AUDIO),
    "heard.SIZES": ("voxtral", AUDIO),
    "llava.PIXTRAL": ("pixtral", ""),
    "omni.QWEN2_5": ("qwen2_5_omni_thinker", AUDIO),
    "omni.QWEN3": ("qwen3_omni_moe_thinker", AUDIO),
    "omni.QWEN3_ASR": ("qwen3_asr", AUDIO),
    "queried.ADAPTER": ("molmo2", "adapter_config"),
    "queried.BLIP": ("blip", VISION),
    "queried.BLIP2": ("blip-2", VISION),
    "queried.IDEFICS": ("idefics2", VISION),
    "queried.KOSMOS2": ("kosmos-2", VISION),
    "queried.KOSMOS2_5": ("kosmos-2.5", VISION),
    "queried.MOLMO2": ("molmo2", VISION),
    "queried.PERCEIVER": ("idefics2", "perceiver_config"),
    "queried.QFORMER": ("blip-2", "qformer_config"),
    "qwen.EXAONE": ("exaone4_5", VISION),
    "qwen.GLM": ("glm4v", VISION),
    "qwen.GLM5": ("glm5_next", VISION),
    "qwen.GLM_OCR": ("glm_ocr", VISION),
    "qwen.KIMI": ("kimi_k25", VISION),
    "qwen.LFM3": ("lfm3_vl", VISION),
    "qwen.QWEN2": ("qwen2_vl", VISION),
    "qwen.QWEN2_5": ("qwen2_5_vl", VISION),
    "heard_and_seen.AUDIO": ("gemma4_audio", ""),
    "heard_and_seen.PARAKEET": ("parakeet_encoder", ""),
    "heard_and_seen.RADIO": ("nemotron_h_omni", VISION),
    "heard_and_seen.VISION": ("gemma4_vision", ""),
    "omni.DOTS3_AUDIO": ("dots3_note", AUDIO),
    "omni.DOTS3_VISION": ("dots3_note", VISION),
    "qwen.QWEN3": ("qwen3_vl", VISION),
    "qwen.QWEN3_5": ("qwen3_5", VISION),
    "documents.GRANITE": ("granite_docling", VISION),
    "documents.HUNYUAN": ("hunyuan_vl", VISION),
    "documents.MINICPM": ("minicpm_ocr", VISION),
    "documents.SAM": ("got_ocr2", VISION),
    "tiles.INTERNVL": ("internvl", VISION),
    "tiles.LLAMA4": ("llama4", VISION),
    "tiles.OVIS2": ("ovis2", VISION),
    "tiles.SMOLVLM": ("smolvlm", VISION),
    "vision.COSMOS": ("cosmos3_edge", VISION),
    "vision.ERNIE": ("ernie4_5_vl_moe", VISION),
    "vision.MINIMAX": ("minimax_m3_vl", VISION),
    "vision.MUSE": ("muse_glimmer", VISION),
    "omni.SPARK": ("muse_spark", AUDIO),
    "vision.PADDLE": ("paddleocr_vl", VISION),
    "vision.PHI": ("phi4_multimodal", VISION),
    "vision.STEP": ("step3p7", VISION),
}
"""Tables of what a class fills in for a key that is missing: the model_type, and the part of its config."""
FILLED: dict[str, tuple[str, str]] = {
    "llava.AYA": ("aya_vision", VISION),
    "llava.CLIP_L": ("llava", VISION),
    "llava.COHERE": ("cohere2_vision", VISION),
    "llava.LIGHTON": ("lighton_ocr", VISION),
    "queried.IDEFICS3": ("idefics3", VISION),
}
"""Tables of what a class fills in where the whole part is missing."""
BEYOND = {
    "llava.LIGHTON": ["rope_theta"],
    "llava.PIXTRAL": ["rope_theta"],
    "omni.QWEN3_ASR": ["max_source_positions", "conv_chunksize"],
    "queried.BLIP": ["num_channels"],
    "queried.BLIP2": ["num_channels"],
    "qwen.QWEN3_5": ["deepstack_visual_indexes"],
    "tiles.LLAMA4": ["rope_theta"],
}
"""Keys of a table that its class does not read: what it does there is fixed, or has another name."""
DERIVED = {("heard.GRANITE", "dim_head")}
"""Keys that the class works out of others."""
OTHER = {"tiles.OF_CHAT": "of a class that its repository holds"}
"""Tables whose class transformers does not have."""


def tables() -> dict[str, dict[str, Any]]:
    """Every table of sizes of a tower in the package."""
    modules = [import_module(f"{PACKAGE}.{found.name}") for found in iter_modules(towers.__path__)]
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": value
        for module in modules
        if module.__name__.rpartition(".")[2] not in ("table", "text", "beside")
        for name, value in vars(module).items()
        if name.isupper()
        and isinstance(value, dict)
        and any(type(value.get(key)) in (int, list) for key in SIZES)
    }


def of_class(name: str) -> Any:
    """The config object of transformers whose defaults a table has."""
    kind, part = (OWN | FILLED)[name]
    config = transformers.CONFIG_MAPPING[kind]()
    inner = getattr(config, part) if part else config
    found = inner if name in FILLED else type(inner)()
    # of sizes that some layers have of their own those of the others are asked
    found.allow_global_per_layer_attribute_access = True
    return found


def plain(value: Any) -> Any:
    """A pair as a list."""
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def test_every_table_names_its_class():
    assert {name for name in tables() if name not in OWN | FILLED | OTHER} == set()


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend
@every_row("name", [*OWN, *FILLED])
def test_a_table_has_the_defaults_of_its_class(name):
    table, theirs = tables()[name], of_class(name)
    differ = {
        key: (value, plain(getattr(theirs, key)))
        for key, value in table.items()
        if (name, key) not in DERIVED
        and key != "model_type"
        and hasattr(theirs, key)
        and plain(value) != plain(getattr(theirs, key))
    }
    assert differ == {}
    assert [key for key in table if not hasattr(theirs, key)] == BEYOND.get(name, [])
