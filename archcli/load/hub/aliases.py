"""Names of models on Ollama and the hub that stand for a preset: olmo-3 for olmo-3-7b.

Where the config.json of that name differs from the preset, the difference is stated as `--set` would: a name
hides nothing that changes a count or a context.
"""

from __future__ import annotations

from collections.abc import Mapping

from archcli.load.presets import LONGEST_NAME, letters, presets

FAMILIES = {
    "bloom": "bloom-176b",
    "deepseek-r1-0528": "deepseek-r1",
    "deepseek-r1-distill-llama-70b": "llama-3.3-70b",
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "deepseek-r1:1.5b": "deepseek-r1-distill-qwen-1.5b",
    "deepseek-r1:14b": "qwen2.5-14b",
    "deepseek-r1:32b": "qwen2.5-32b",
    "deepseek-r1:671b": "deepseek-r1",
    "deepseek-r1:70b": "llama-3.3-70b",
    "deepseek-r1:7b": "deepseek-r1-distill-qwen-7b",
    "deepseek-v2:16b": "deepseek-v2-lite",
    "deepseek-v2:236b": "deepseek-v2",
    "deepseek-v3-0324": "deepseek-v3",
    "deepseek-v3-base": "deepseek-v3",
    "deepseek-v3.1-terminus": "deepseek-v3.1",
    "deepseek-v3.1:671b": "deepseek-v3.1",
    "deepseek-v3.2-exp": "deepseek-v3.2",
    "deepseek-v3:671b": "deepseek-v3",
    "devstral": "devstral-small-24b",
    "devstral-small": "devstral-small-24b",
    "devstral-small-2": "devstral-small-2-24b",
    "devstral:24b": "devstral-small-24b",
    "distilbert-base-uncased": "distilbert-base",
    "falcon": "falcon-7b",
    "falcon3": "falcon3-7b",
    "gemma": "gemma-7b",
    "gemma2": "gemma-2-9b",
    "gemma3": "gemma-3-4b",
    "gemma3n": "gemma-3n-e4b",
    "gpt-j": "gpt-j-6b",
    "gpt-neox": "gpt-neox-20b",
    "gpt-oss": "gpt-oss-20b",
    "granite4:tiny-h": "granite-4.0-h-tiny",
    "kimi-k2.6": "kimi-k2.5",
    "kimi-k2.7-code": "kimi-k2.5",
    "kimi-linear": "kimi-linear-48b-a3b",
    "llama-4-maverick-17b-128e-instruct": "llama-4-maverick",
    "llama-4-scout-17b-16e-instruct": "llama-4-scout",
    "llama2": "llama-2-7b",
    "llama3": "llama-3-8b",
    "llama3.1": "llama-3.1-8b",
    "llama3.2": "llama-3.2-3b",
    "llama3.2-vision": "llama-3.2-11b-vision",
    "llama3.2-vision:11b": "llama-3.2-11b-vision",
    "llama4": "llama-4-scout",
    "llama4:128x17b": "llama-4-maverick",
    "llama4:16x17b": "llama-4-scout",
    "llava": "llava-1.6-mistral-7b",
    "llava:7b": "llava-1.6-mistral-7b",
    "minimax-m2.1": "minimax-m2",
    "mistral": "mistral-7b-v0.3",
    "mistral-large": "mistral-large-123b",
    "mistral-large-instruct-2411": "mistral-large-123b",
    "mistral-nemo": "mistral-nemo-12b",
    "mistral-small": "mistral-small-24b",
    "mistral-small-3.2": "mistral-small-3.1-24b",
    "mistral-small-3.2-24b": "mistral-small-3.1-24b",
    "mistral-small-3.2-24b-instruct-2506": "mistral-small-3.1-24b",
    "mistral-small3.1": "mistral-small-3.1-24b",
    "mistral-small3.2": "mistral-small-3.1-24b",
    "mistral-small3.2:24b": "mistral-small-3.1-24b",
    "mistral:7b": "mistral-7b-v0.3",
    "mixtral": "mixtral-8x7b",
    "mixtral-8x22b-v0.1": "mixtral-8x22b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "nemotron-3-nano": "nemotron-3-nano-30b-a3b",
    "nemotron-3-super": "nemotron-3-super-120b-a12b",
    "nemotron-3-ultra": "nemotron-3-ultra-550b-a55b",
    "nomic-embed-text": "nomic-embed-text-v1.5",
    "olmo-2-0325-32b": "olmo-2-32b",
    "olmo-2-0425-1b": "olmo-2-1b",
    "olmo-2-1124-13b": "olmo-2-13b",
    "olmo-2-1124-7b": "olmo-2-7b",
    "olmo-3": "olmo-3-7b",
    "olmo-3-1025-7b": "olmo-3-7b",
    "olmo-3-1125-32b": "olmo-3.1-32b",
    "olmo-3-32b": "olmo-3.1-32b",
    "olmo2": "olmo-2-7b",
    "olmoe-1b-7b-0924": "olmoe-1b-7b",
    "phi3": "phi-3-mini-4k",
    "phi3:14b": "phi-3-medium-4k",
    "phi3:medium": "phi-3-medium-4k",
    "phi3:mini": "phi-3-mini-4k",
    "phi4-mini:3.8b": "phi-4-mini",
    "phi4:14b": "phi-4",
    "pixtral-12b-2409": "pixtral-12b",
    "qwen2.5": "qwen2.5-7b-instruct",
    "qwen2.5-coder": "qwen2.5-7b-instruct",
    "qwen2.5-coder:0.5b": "qwen2.5-0.5b",
    "qwen2.5-coder:1.5b": "qwen2.5-1.5b-instruct",
    "qwen2.5-coder:14b": "qwen2.5-14b-instruct",
    "qwen2.5-coder:32b": "qwen2.5-32b-instruct",
    "qwen2.5-coder:3b": "qwen2.5-3b",
    "qwen2.5-coder:7b": "qwen2.5-7b-instruct",
    "qwen2.5vl": "qwen2.5-vl-7b",
    "qwen3": "qwen3-8b",
    "qwen3-235b-a22b-thinking-2507": "qwen3-235b-a22b-2507",
    "qwen3-30b-a3b-thinking-2507": "qwen3-30b-a3b-2507",
    "qwen3-4b-thinking-2507": "qwen3-4b-2507",
    "qwen3-coder": "qwen3-coder-30b-a3b",
    "qwen3-coder-next:80b": "qwen3-coder-next",
    "qwen3-coder:30b": "qwen3-coder-30b-a3b",
    "qwen3-next": "qwen3-next-80b-a3b",
    "qwen3-next-80b-a3b-thinking": "qwen3-next-80b-a3b",
    "qwen3-vl": "qwen3-vl-8b",
    "qwen3-vl-30b-a3b-thinking": "qwen3-vl-30b-a3b",
    "qwen3-vl-8b-thinking": "qwen3-vl-8b",
    "qwq": "qwq-32b",
    "seed-oss": "seed-oss-36b",
    "smollm2": "smollm2-1.7b",
    "smollm3": "smollm3-3b",
    "solar-open": "solar-open-100b",
    "starcoder2": "starcoder2-3b",
    "tinyllama": "tinyllama-1.1b",
    "tinyllama-1.1b-chat-v1.0": "tinyllama-1.1b",
    "voxtral-mini": "voxtral-mini-3b",
    "voxtral-mini-3b-2507": "voxtral-mini-3b",
    "yi": "yi-6b",
}
"""Names of https://ollama.com/library and of the hub, and the preset of the same config.json."""

OF_0528 = ("max_seq_len=131072", "position.scaling={kind: yarn, factor: 4, original_max_seq_len: 32768}")
"""config.json of deepseek-ai/DeepSeek-R1-0528-Qwen3-8B, beside that of Qwen3-8B."""
LONG_PHI = ("max_seq_len=131072", "window=262144")
"""config.json of Phi-3-mini-128k-instruct and Phi-3.5-mini-instruct; their other angles change no count."""
GLM_CHAT = ("max_seq_len=131072", "position.theta=5000000")
"""seq_length and rope_ratio (500, of 10,000) of THUDM/glm-4-9b-chat's config.json."""
GLM_MILLION = ("max_seq_len=1048576", "n_kv_heads=4", "position.theta=100000000")
"""seq_length, multi_query_group_num and rope_ratio (10,000) of THUDM/glm-4-9b-chat-1m's config.json."""
SHORT_QWEN = ("max_seq_len=32768",)
"""config.json of Qwen2's Instruct, whose base models have 131,072."""
SHORT_LLAMA = ("max_seq_len=262144",)
"""config.json of Llama 4 before its tuning."""

CHANGED: Mapping[str, tuple[str, ...]] = {
    "deepseek-r1:8b": ("qwen3-8b", *OF_0528),
    "deepseek-r1-0528-qwen3-8b": ("qwen3-8b", *OF_0528),
    "glm4": ("glm-4-9b", *GLM_CHAT),
    "glm-4-9b-chat": ("glm-4-9b", *GLM_CHAT),
    "glm-4-9b-chat-1m": ("glm-4-9b", *GLM_MILLION),
    "llama-4-scout-17b-16e": ("llama-4-scout", *SHORT_LLAMA),
    "llama-4-maverick-17b-128e": ("llama-4-maverick", *SHORT_LLAMA),
    "mixtral-8x22b-instruct-v0.1": ("mixtral-8x22b", "vocab_size=32768"),
    "phi-3-mini-128k": ("phi-3-mini-4k", *LONG_PHI),
    "phi-3-medium-128k": ("phi-3-medium-4k", "max_seq_len=131072", "window=131072"),
    "phi3.5": ("phi-3-mini-4k", *LONG_PHI),
    "phi3.5:3.8b": ("phi-3-mini-4k", *LONG_PHI),
    "phi-3.5-mini": ("phi-3-mini-4k", *LONG_PHI),
    "qwen2": ("qwen2-7b", *SHORT_QWEN),
    "qwen2-7b-instruct": ("qwen2-7b", *SHORT_QWEN),
    "qwen2-57b-a14b-instruct": ("qwen2-57b-a14b", *SHORT_QWEN),
}
"""Name: the preset of the same shape, and the settings in which the config.json of that name differs."""

TAGS: Mapping[str, tuple[str, ...]] = {
    "deepseek-r1:latest": ("qwen3-8b", *OF_0528),
    "glm4:9b": ("glm-4-9b", *GLM_CHAT),
    "qwen2:7b": ("qwen2-7b", *SHORT_QWEN),
    **{f"qwen2.5:{size}": (f"qwen2.5-{size}-instruct",) for size in ("1.5b", "7b", "14b", "32b", "72b")},
    "qwen3:4b": ("qwen3-4b-2507",),
    "qwen3:30b": ("qwen3-30b-a3b-2507",),
    "qwen3:30b-a3b": ("qwen3-30b-a3b-2507",),
    "qwen3:235b": ("qwen3-235b-a22b-2507",),
    "qwen3:235b-a22b": ("qwen3-235b-a22b-2507",),
}
"""Tags of Ollama that spell a preset's name and lead to a later or a tuned model: qwen3:4b is of 2507."""


def respelled(name: str) -> str:
    """The preset whose name differs in capitals and punctuation alone; empty where there is none.

    llama3.1:8b is llama-3.1-8b, and Qwen3-8B is qwen3-8b: no two presets have the same letters and digits.
    A tag of Ollama's may stand for another release: qwen3:4b.
    """
    if name.lower() in TAGS:
        return ""
    # some other letters lower to ASCII (the Kelvin sign to k), and would name a preset by accident
    bare = letters(name) if len(name) <= LONGEST_NAME and name.isascii() else ""
    return next((preset for preset in presets() if bare and letters(preset) == bare), "")
