"""What a class of transformers says of itself on the meta device: parameters, FLOPs, cached elements.

None of our code takes part. Conventions are those of `tests/oracle/regenerate.py`: FLOP = 2 multiply-adds,
matrix products only, batch 1, attention over all S x S pairs, logits at every position, tied tensors once,
tables that no checkpoint stores not at all; of a wrapper the language model with its head.
"""

from __future__ import annotations

import json
import warnings
from math import prod
from typing import Any

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

FORMS = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
"""batched_mm is the form of the experts whose products FlopCounterMode sees."""

SHOWN = 160
HEADS_AXES = 4
"""Axes of cached keys: batch, heads, tokens, width; an empty layer has one."""
LATENT = ("kv_lora_rank", "qk_rope_head_dim", "kv_b_proj")
"""What a module of multi-head latent attention has."""
ALL_EXPERTS = ("Llama4TextMoe",)
"""Modules that run every expert on every token, with zeros for all but the chosen."""
PAIRS = ("EncoderDecoderModel",)
"""Models made of an encoder and a decoder of any kind."""
IN_BLOCKS = ("LongT5LocalAttention", "LongT5TransientGlobalAttention")
"""Modules that compute scores block by block."""

TOWERS = (
    "git.image_encoder.",
    "git.visual_projection.",
    "git.img_temporal_embedding.",
    "model.vision_tower.",
    "model.multi_modal_projector.",
    "model.encoder.vision_tower.",
    "model.encoder.multi_modal_projector.",
    "model.embed_tokens_extend.",
    "model.protein_encoder.",
)
"""Parts beside a language model whose config has no text part."""


def default_config(kind: str, name: str) -> dict[str, Any]:
    """The config.json that a class of this model_type saves where nothing is stated."""
    return saved(transformers.CONFIG_MAPPING[kind](), name)


def saved(config: Any, name: str) -> dict[str, Any]:
    """The config.json of this config for a class."""
    written = json.loads(config.to_json_string(use_diff=True))
    written.pop("transformers_version", None)
    return {"architectures": [name], **written}


def default_model(kind: str, name: str, config: dict[str, Any]) -> Any:
    """The class's model of its saved defaults, or of the defaults where it cannot read what it saved."""
    try:
        return built(config)
    except Exception:  # noqa: BLE001 what any class may raise
        return of_config(transformers.CONFIG_MAPPING[kind](), name)


def built(config: dict[str, Any]) -> Any:
    """The class's model of a config.json, on meta."""
    stated = {key: value for key, value in config.items() if key != "architectures"}
    theirs = transformers.CONFIG_MAPPING[config["model_type"]].from_dict(stated)
    return of_config(theirs, config["architectures"][0])


def of_config(theirs: Any, name: str) -> Any:
    """The model of the class of that name, on meta."""
    cls = getattr(transformers, name)
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        try:
            return cls._from_config(theirs, **FORMS).eval()
        except (ValueError, TypeError):
            return cls._from_config(theirs, attn_implementation="eager").eval()


def is_wrapper(model: Any) -> bool:
    """Whether the model holds a language model beside other parts."""
    config = model.config
    text = config.get_text_config(decoder=True)
    return text is not config and not getattr(config, "is_encoder_decoder", False)


def language_model(model: Any) -> dict[str, torch.Tensor]:
    """The parameters that are counted, tied ones once: of a wrapper those of the text part and its head."""
    computed = set(getattr(model, "_keys_to_ignore_on_save", None) or ())
    named = {
        name: p
        for name, p in model.named_parameters()
        if name not in computed and p.requires_grad and not name.startswith(TOWERS)
    }
    if not is_wrapper(model):
        return named
    parts = [model.get_decoder(), model.get_output_embeddings(), model.get_input_embeddings()]
    parts += [getattr(model, "projection_head", None)]
    inner = {id(p) for part in parts if part is not None for p in part.parameters()}
    return {name: p for name, p in named.items() if id(p) in inner}


def params(model: Any) -> int:
    """Trainable parameters, tied ones once, without those of experts that compute nothing."""
    return sum(p.numel() for p in language_model(model).values()) - sum(
        map(_of_zero_experts, model.modules())
    )


def _of_zero_experts(experts: Any) -> int:
    """Gates and inputs that LongCat's class makes for its zero experts, which no checkpoint stores."""
    zero, gates = getattr(experts, "zero_expert_num", 0), getattr(experts, "gate_up_proj", None)
    return zero * (gates.numel() // len(gates)) if zero else 0


def one_pass(model: Any, tokens: int) -> dict[str, Any]:
    """Matmul FLOPs of one pass, and the elements it leaves in the cache; None with a reason where hidden."""
    counter = FlopCounterMode(display=False)
    try:
        with torch.device("meta"), torch.no_grad(), counter:
            out = _run(model, tokens, counter)
    except Exception as error:  # noqa: BLE001 what any class may raise on meta
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"flops": None, "cached": None, "hidden": reason[:SHOWN]}
    wasted = _wasted(model, tokens)
    return {"flops": counter.get_total_flops() - wasted, "cached": _cached(model, out, tokens)}


def _wasted(model: Any, tokens: int) -> int:
    """Products of experts that run on every token though few are chosen, of masked keys and poolers."""
    idle = 0
    for module in model.modules():
        if type(module).__name__ in ALL_EXPERTS:
            stacks = [
                p.numel()
                for name, p in module.named_parameters()
                if "experts." in name and "shared" not in name
            ]
            idle += sum(stacks) // module.num_experts * (module.num_experts - module.top_k)
    # the encoder of a pair pools its first token, and the decoder does not read it
    pooler = getattr(model.encoder, "pooler", None) if type(model).__name__ in PAIRS else None
    pooled = 0 if pooler is None else 2 * pooler.dense.weight.numel()
    return 2 * tokens * idle + pooled + sum(_of_blocks(module, tokens) for module in model.modules())


def _of_blocks(attention: Any, tokens: int) -> int:
    """Products of LongT5's encoder beyond those of all tokens with all keys.

    Tokens are padded to whole blocks, each of which meets three; block sums are products with ones and zeros.
    """
    if type(attention).__name__ not in IN_BLOCKS:
        return 0
    length, heads = attention.block_len, 4 * attention.n_heads * attention.key_value_proj_dim
    size = getattr(attention, "global_block_size", None)
    sums = tokens // size if size else 0
    padded = -(-tokens // length) * length
    scored = padded * (3 * length + sums)
    # einsum multiplies vectors of one number element by element, which no counter sees
    unseen = scored * heads // 2 if attention.key_value_proj_dim == 1 else 0
    return heads * (scored - tokens * (tokens + sums)) - unseen + 2 * tokens * sums * attention.d_model


def _run(model: Any, tokens: int, counter: FlopCounterMode) -> Any:
    ids, mask = torch.zeros(1, tokens, dtype=torch.long), torch.ones(1, tokens, dtype=torch.long)
    config = model.config
    if not getattr(config, "is_encoder_decoder", False):
        forms = ({"attention_mask": mask, "use_cache": True}, {"attention_mask": mask}, {})
        return _first(model, [{"input_ids": ids, **form} for form in forms], counter)
    source: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
    if model.main_input_name == "input_features":
        length = getattr(config, "max_source_positions", tokens)
        source = {"input_features": torch.empty(1, config.num_mel_bins, 2 * length)}
    given = {**source, "decoder_input_ids": ids}
    unmasked = {key: value for key, value in given.items() if key != "attention_mask"}
    return _first(
        model,
        [
            {**given, "decoder_attention_mask": mask, "use_cache": True},
            {**unmasked, "decoder_attention_mask": mask, "use_cache": True},
            {**unmasked, "use_cache": True},
            unmasked,
        ],
        counter,
    )


def _first(model: Any, forms: list[dict[str, Any]], counter: FlopCounterMode) -> Any:
    """The pass with the first of these arguments that the class takes, or can take on meta.

    What a pass that failed had counted by then is not kept.
    """
    for form in forms[:-1]:
        try:
            return model(**form)
        except (TypeError, RuntimeError):
            counter.flop_counts.clear()
    return model(**forms[-1])


def _index_key(attention: Any) -> int:
    """The width of the key by which an indexer of the layer finds a token; 0 without one."""
    indexer = getattr(attention, "indexer", None)
    return 0 if indexer is None else int(indexer.head_dim)


def _of_compressed(layer: Any, tokens: int) -> int:
    """Elements that grow in a layer of DeepSeek-V4: a vector of each token of the window, keys of blocks."""
    near = prod(layer.keys.shape) // layer.keys.shape[2] * min(tokens, layer.sliding_window)
    blocks = getattr(layer, "compressed_kv", {}).values()
    return near + sum(keys.numel() for keys in blocks if keys is not None)


def _entries(layer: Any) -> list[Any]:
    """The tensors of a cached layer: keys, values, and the keys of an index where it has one (MiniMax-M3)."""
    of_index = getattr(layer, "idx_keys", None)
    return [layer.keys, layer.values, *([] if of_index is None else [of_index])]


def _cached(model: Any, out: Any, tokens: int) -> int | None:  # noqa: PLR0911
    """Elements per layer for the tokens it can still see; of latent attention the latent, and an index's key.

    Nothing of an encoder (use_bidirectional_attention true): what its first tokens are depends on the last,
    so that a pass over more tokens reuses none of the keys and values that its class leaves in a cache.
    """
    if getattr(model.config, "use_bidirectional_attention", None) is True:
        return 0
    cache = getattr(out, "cache", getattr(out, "past_key_values", None))  # past_key_values before 5.24
    cache = getattr(cache, "self_attention_cache", cache)
    if any(not hasattr(layer, "keys") for layer in getattr(cache, "layers", ())):
        return None  # layers with a state
    if hasattr(cache, "linear_cache"):
        return None  # states beside the layers (MiniMax-01)
    ranks = [
        (int(module.kv_lora_rank), int(module.qk_rope_head_dim), _index_key(module))
        for module in model.modules()
        if hasattr(module, "kv_lora_rank")
        and hasattr(module, "qk_rope_head_dim")
        and hasattr(module, "kv_b_proj")
    ]
    if ranks:
        return tokens * sum(sum(rank) for rank in ranks)
    if not hasattr(cache, "layers"):
        return None
    if any(hasattr(layer, "compressed_kv") for layer in cache.layers):
        return sum(_of_compressed(layer, tokens) for layer in cache.layers)
    filled = [layer for layer in cache.layers if layer.keys is not None and layer.keys.dim() == HEADS_AXES]
    return sum(
        sum(prod(x.shape) // x.shape[2] for x in _entries(layer))
        * min(tokens, getattr(layer, "sliding_window", None) or tokens)
        for layer in filled
    )
