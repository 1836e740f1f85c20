"""Reconstruct the config.json of a GGUF file from its header; notes list what the header lacks.

The importers of `load/huggingface/families` know what a family is made of.
"""

from __future__ import annotations

from archcli.errors import ArchError, Problem, quote
from archcli.load.gguf.arch import KEYS, REQUIRED, UNCOUNTED
from archcli.load.gguf.facts import ConfigData, Facts
from archcli.load.gguf.families import LAYER_TYPES, TIED
from archcli.load.gguf.header import LONGEST_LIST, Skipped
from archcli.load.gguf.special import LATENT_ARCHS, SPECIAL
from archcli.load.huggingface.parts.attention import FULL, SLIDING

UNTIED = "output.weight is a tensor of its own: the head is counted as untied, though this family's is not"
NO_TENSORS = (
    "the file lists no tensors: biases and a tied head are the class's default, and no shape was compared"
)
MOST_NAMED = 20
"""Keys that notes name."""
UNSTATED_WINDOW = (
    "the file states no sliding window, and full attention is counted; Mistral 7B v0.1 has one: "
    "--set attention.window=4096"
)
STRETCHED = (
    "rotary frequencies are stretched by factors that are not read: no count depends on them, logits do"
)


def config_of(facts: Facts) -> ConfigData:
    """The config.json of a GGUF file; `facts.keys` maps its keys to metadata keys."""
    missing = [key for key in REQUIRED if key not in facts.arch.ignored and facts.get(key) is None]
    if missing:
        names = (f"metadata key '{facts.name}.{key}' is missing" for key in missing)
        raise ArchError([Problem(what, "nothing else says it", path=facts.file) for what in names])
    arch = facts.arch
    config: ConfigData = {"model_type": arch.model_type, "architectures": [arch.cls], **arch.fixed}
    for key, theirs in {**KEYS, **arch.keys}.items():
        if key in arch.ignored or (value := facts.get(key)) is None:
            continue
        config[theirs] = value
        facts.trace(theirs, key)
    config["vocab_size"] = _vocab_size(facts)
    _heads(facts, config)
    _flags(facts, config)
    _windows(facts, config)
    if arch.rope:
        _rope(facts, config)
    if facts.name in SPECIAL:
        SPECIAL[facts.name](facts, config)
    _note_unread_keys(facts)
    return {key: value for key, value in config.items() if key not in arch.unread}


def _flags(facts: Facts, config: ConfigData) -> None:
    """Settings that follow from the presence of tensors: biases, and whether the head is tied."""
    if not facts.header.tensors:
        facts.notes.append(NO_TENSORS)
        return
    config |= {key: facts.has(tensor) for key, tensor in facts.arch.flags.items()}
    # llama.cpp reads the token table as the head where a file has no output.weight
    config["tie_word_embeddings"] = not facts.has("output.weight")
    if facts.has("output.weight") and facts.name in TIED:
        facts.notes.append(UNTIED)


def _windows(facts: Facts, config: ConfigData) -> None:
    """Set the layers with a window: by a list of flags, or by a period with full attention in its last.

    Notes a Mistral without the key: its v0.1 had a window, which llama.cpp ignores and does not store.
    """
    if facts.name == "llama" and not config.get("sliding_window") and _is_mistral(facts):
        facts.notes.append(UNSTATED_WINDOW)
    if facts.arch.model_type not in LAYER_TYPES:
        return
    layers, pattern = facts.whole("block_count"), facts.per_layer("attention.sliding_window_pattern")
    if isinstance(pattern, int) and not isinstance(pattern, bool) and pattern > 0:
        # as set_swa_pattern of llama.cpp; the bound is for a forged block_count
        pattern = [(index + 1) % pattern != 0 for index in range(min(layers, LONGEST_LIST))]
    if pattern is None or not config.get("sliding_window"):
        return
    if not isinstance(pattern, list) or len(pattern) != layers:
        raise facts.error(f"{facts.name}.attention.sliding_window_pattern is not one value for each layer")
    config["layer_types"] = [SLIDING if slides else FULL for slides in pattern]
    facts.trace("layer_types", "attention.sliding_window_pattern")


def _is_mistral(facts: Facts) -> bool:
    """Whether the file's name of the model says Mistral."""
    names = (facts.header.metadata.get(f"general.{key}") for key in ("name", "basename", "finetune"))
    return any("mistral" in name.lower() for name in names if isinstance(name, str))


def _vocab_size(facts: Facts) -> int:
    """The vocabulary size: rows of the token table, else the stated size or the number of listed tokens."""
    table = facts.header.tensors.get("token_embd.weight")
    tokens = facts.header.metadata.get("tokenizer.ggml.tokens")
    listed = tokens.length if isinstance(tokens, Skipped) else None
    if isinstance(tokens, list):
        listed = len(tokens)
    declared = facts.get("vocab_size", listed)
    facts.trace("vocab_size", "vocab_size")
    if tokens is not None:
        facts.keys.setdefault("vocab_size", "tokenizer.ggml.tokens")
    # converters may fill the table up beyond the listed tokens: its rows are what a model holds
    size = table.shape[0] if table else declared
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        hint = f"{facts.name}.vocab_size, tokenizer.ggml.tokens or token_embd.weight would state it"
        raise facts.error("the size of the vocabulary is not stated", hint)
    return size


def _heads(facts: Facts, config: ConfigData) -> None:
    """Set the number of kv heads; by default that of query heads.

    Raises ArchError where keys and values differ in width, unless they are latent, and where attention is
    not causal in a decoder.
    """
    key, value = facts.get("attention.key_length"), facts.get("attention.value_length")
    if facts.name not in LATENT_ARCHS and None not in {key, value} and key != value:
        raise facts.error(f"key_length {key} with value_length {value} is not supported for {facts.name}")
    theirs = facts.arch.keys.get("attention.head_count_kv", KEYS["attention.head_count_kv"])
    if theirs not in config:
        config[theirs] = facts.get("attention.head_count")
        facts.trace(theirs, "attention.head_count")
    if facts.get("attention.causal", default=True) is False and facts.name not in ("bert", "t5"):
        raise facts.error(f"attention that is not causal is not supported for {facts.name}")


def _rope(facts: Facts, config: ConfigData) -> None:
    """Set RoPE's base (10000 where missing, as in llama.cpp), share of a head, and scaling."""
    config.setdefault("rope_theta", 10000.0)
    split = facts.whole("embedding_length") // max(1, facts.whole("attention.head_count"))
    width = facts.whole("attention.key_length", split)
    rotated = facts.whole("rope.dimension_count", width)
    if facts.arch.partial and width:
        config["partial_rotary_factor"] = rotated / width
        facts.trace("partial_rotary_factor", "rope.dimension_count")
    elif facts.name not in LATENT_ARCHS and rotated != width:
        what = f"{facts.name}.rope.dimension_count {rotated} with head_dim {width} is not supported"
        raise facts.error(what)
    if scaling := _scaling(facts):
        config["rope_scaling"] = {**scaling, **facts.arch.scaling}
    elif facts.arch.scaling:
        config["rope_parameters"] = {"rope_type": "default"}  # the class would stretch where nothing is said


def _scaling(facts: Facts) -> ConfigData | None:
    """The `rope_scaling` of a config, linear or YaRN; None where factors are stored as a tensor."""
    kind, factor = facts.get("rope.scaling.type", "none"), facts.number("rope.scaling.factor")
    original = facts.get("rope.scaling.original_context_length")
    # constants.py of gguf-py has both keys, and a file one of them
    attention = facts.get("rope.scaling.attn_factor") or facts.get("rope.scaling.yarn_attn_factor")
    more = {
        "beta_fast": facts.get("rope.scaling.yarn_beta_fast"),
        "beta_slow": facts.get("rope.scaling.yarn_beta_slow"),
    }
    multiplier = facts.number("rope.scaling.yarn_log_multiplier") * 10  # written as a tenth of it
    # of YaRN's ramp alone, on which no count depends: read, so that it is not noted as unknown
    facts.read.add("rope.scaling.yarn_ext_factor")
    stored = [name for name in facts.header.tensors if name.startswith(("rope_freqs", "rope_factors"))]
    if stored or kind == "longrope":
        facts.notes.append(STRETCHED)
        return None
    if kind == "none" or not factor or factor == 1:
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind != "yarn":
        what = f"rope scaling {quote(str(kind))} is not supported"
        raise facts.error(what, "known: none, linear, yarn, longrope")
    scale = multiplier or None
    scales = {"mscale": scale, "mscale_all_dim": scale, "attention_factor": attention}
    yarn = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    return {key: value for key, value in {**yarn, **more, **scales}.items() if value is not None}


def _note_unread_keys(facts: Facts) -> None:
    """Note keys of the architecture that were not read."""
    prefix = f"{facts.name}."
    known = {*facts.read, *UNCOUNTED, *facts.arch.ignored}
    unread = [
        key
        for key in facts.header.metadata
        if key.startswith(prefix) and key.removeprefix(prefix) not in known
    ]
    for key in unread[:MOST_NAMED]:
        facts.notes.append(f"metadata key {quote(key)} was not understood and may change the count")
    if len(unread) > MOST_NAMED:
        facts.notes.append(f"and {len(unread) - MOST_NAMED:,} more metadata keys were not understood")
