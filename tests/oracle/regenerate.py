"""What other people's software says of the presets.

Regenerates `figures.json` from the configs beside it. None of our code takes part.

    python tests/oracle/regenerate.py [ID …]

Each `configs/ID.json` holds the sizes and settings of a model as its Hugging Face `config.json` states them.
Some models have no class of their own and are those of another by the same construction: llama-3.1-405b and
cs336-small a Llama's, the original Transformers Marian's, PaLM Cohere's, ChatGLM2 and GLM-4 GLM's, Apple's
AFM Qwen3's. The `transformers` class of that config is built on torch's meta device, where tensors have
shapes but no numbers; its tensors are counted, and `FlopCounterMode` counts its eager forward. Conventions:
FLOP = 2 multiply-adds, matrix products only, batch 1, attention over all S x S pairs, logits at every
position; tied tensors once, buffers and computed tables not at all. An encoder-decoder reads as many source
tokens as there are target tokens, unless its source has a length of its own (Whisper); a decoding step does
not read the source again. An encoder caches nothing, and the class of GPT-1 has no cache.
"""

import json
import re
import sys
from collections import Counter
from importlib.metadata import version
from inspect import signature
from math import prod
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Cache,
    DynamicCache,
    EncoderDecoderCache,
    PreTrainedModel,
)
from transformers.cache_utils import CacheLayerMixin
from transformers.modeling_outputs import BaseModelOutput

HERE = Path(__file__).parent
CONFIGS, FIGURES = HERE / "configs", HERE / "figures.json"


class Lengths(NamedTuple):
    """How many tokens pass, are cached before one more, and fill the cache."""

    flops: tuple[int, ...] = (512, 2048)
    past: int = 1024
    contexts: tuple[int, ...] = (1024, 8192)


# Classes that take no more tokens than they have positions.
SHORT = {
    "whisper": Lengths((128, 448), 400, (448,)),
    "mpt": Lengths(contexts=(1024, 2048)),
    "bert": Lengths((128, 512)),
    "openai-gpt": Lengths((128, 512)),
}
CACHELESS = {"bert", "openai-gpt"}
ALL_EXPERTS = {"llama4_text"}
"""Classes that run every expert on every token, with zeros for all but the chosen.

What those multiply is taken off.
"""

# The first pattern found in a tensor's name says what it belongs to.
GROUPS = {
    r"\.indexer\.": "indexer",
    r"\.compressor\.": "compressor",
    r"_hc\.|hc_head\.": "hyper_connections",
    r"\.q_a_norm\.|\.self_attn\.kv_norm\.": "mla_latent_norm",
    r"\.[qk]_norm\.|\.[qk]_layernorm\.": "qk_norm",
    r"\.(q|kv)_a_layernorm\.": "mla_latent_norm",
    r"[nN]orm|\.ln_": "norms",
    r"relative_attention_bias": "relative_attention_bias",
    r"token_type_embeddings": "token_type_embedding",
    r"encoder\.embed_positions": "frozen_positional",
    r"wpe|embed_positions|position_embeddings|positions_embed": "position_embedding",
    r"wte|embed_tokens|embed_in|word_embeddings|tokens_embed|shared\.weight": "embedding",
    r"lm_head|embed_out": "lm_head",
    r"pooler": "pooler",
    r"\.conv\d\.": "conv_frontend",
    r"\.shared_experts?\.": "shared_experts",
    r"\.experts\.|block_sparse_moe\.(in|out)put_linear": "experts",
    r"\.mlp\.gate\.|\.router\.": "router",
    r"sinks": "attention_sinks",
    r"\.mlp\.|\.fc[12]\.|\.ffn\.|\.intermediate\.|DenseReluDense|layer\.\d+\.output\.": "ffn",
    r"[aA]ttn|[aA]ttention": "attention",
}


def figures(settings: dict, usual: Lengths | None = None) -> dict:
    """All figures of one config, at the usual lengths where its class takes so many tokens."""
    lengths = SHORT.get(settings["model_type"], usual or Lengths())
    with torch.device("meta"):
        model = _built(settings)
        found = {**_params(model), "flops": {str(n): _flops(model, n) for n in lengths.flops}}
        if settings["model_type"] in CACHELESS:
            return found
        cache = {n: _filled(model, n) for n in lengths.contexts}
        cross = {
            str(n): _elements(filled.cross_attention_cache)
            for n, filled in cache.items()
            if hasattr(filled, "cross_attention_cache")
        }
        return {
            **found,
            "decode_flops": {str(lengths.past): _flops(model, 1, _filled(model, lengths.past))},
            "kv_elements": {
                str(n): _elements(getattr(filled, "self_attention_cache", filled), n)
                for n, filled in cache.items()
            },
            **({"cross_elements": cross} if cross else {}),
        }


def _built(settings: dict) -> PreTrainedModel:
    """The class the config names, a causal language model where it names none."""
    architecture = settings.get("architectures")
    config = AutoConfig.for_model(**settings)
    # batched_mm is the form of the experts whose products FlopCounterMode sees
    forms = {"attn_implementation": "eager", "experts_implementation": "batched_mm"}
    if architecture is None:
        return AutoModelForCausalLM.from_config(config, **forms).eval()
    return getattr(transformers, architecture[0])._from_config(config, attn_implementation="eager").eval()


def _params(model: PreTrainedModel) -> dict:
    """Parameters in all, per token (of E stacked experts, k), and by group.

    A table that no checkpoint stores is computed.
    """
    by_group: Counter[str] = Counter()
    computed = set(model._keys_to_ignore_on_save or ())
    for name, tensor in model.named_parameters():
        if name not in computed:
            by_group[_group(name)] += tensor.numel()
    total = by_group.total()
    return {
        "params": total,
        "active_params": total - _idle(model),
        "by_group": dict(sorted(by_group.items())),
    }


def _group(name: str) -> str:
    return next(group for pattern, group in GROUPS.items() if re.search(pattern, name))


def _idle(model: PreTrainedModel) -> int:
    """Parameters of the experts that a token does not visit."""
    stacks = [tensor for name, tensor in model.named_parameters() if _group(name) == "experts"]
    return sum(
        stack.numel() // len(stack) * (len(stack) - model.config.num_experts_per_tok) for stack in stacks
    )


def _flops(model: PreTrainedModel, new: int, cache: Cache | None = None) -> int:
    """FLOPs of one forward over `new` tokens behind the cached ones."""
    counter = FlopCounterMode(display=False)
    with counter:
        _run(model, new, cache)
    wasted = 2 * new * _idle(model) if model.config.model_type in ALL_EXPERTS else 0
    return counter.get_total_flops() - wasted


def _filled(model: PreTrainedModel, tokens: int) -> Cache:
    """The cache after a prefill of that many tokens."""
    cache = DynamicCache(config=model.config)
    if model.config.is_encoder_decoder:
        cache = EncoderDecoderCache(cache, DynamicCache(config=model.config))
    _run(model, tokens, cache)
    return cache


@torch.no_grad()
def _run(model: PreTrainedModel, new: int, cache: Cache | None) -> None:
    """One forward.

    Without a mask, transformers would look for packed sequences in the numbers of the positions.
    """
    past = 0 if cache is None else cache.get_seq_length()
    tokens, mask = torch.zeros(1, new, dtype=torch.long), torch.ones(1, past + new, dtype=torch.long)
    name = "cache" if "cache" in signature(model.forward).parameters else "past_key_values"  # before 5.24
    kept = {name: cache, "use_cache": cache is not None}
    if model.config.model_type in CACHELESS:
        model(input_ids=tokens)
    elif not model.config.is_encoder_decoder:
        model(input_ids=tokens, attention_mask=mask, **kept)
    else:
        model(
            decoder_input_ids=tokens,
            decoder_attention_mask=mask,
            **_source(model, past or new, read=not past),
            **kept,
        )


def _source(model: PreTrainedModel, length: int, *, read: bool) -> dict:
    """What the encoder reads, or, where the cache holds what was made of it, that it was read."""
    config = model.config
    length = getattr(config, "max_source_positions", length)
    if not read:
        return {"encoder_outputs": BaseModelOutput(last_hidden_state=torch.empty(1, length, config.d_model))}
    if model.main_input_name == "input_features":
        return {"input_features": torch.empty(1, config.num_mel_bins, 2 * length)}
    return {"input_ids": torch.zeros(1, length, dtype=torch.long)}


def _elements(cache: DynamicCache, tokens: int | None = None) -> int:
    """Elements cached per token and layer, for the tokens the layer can still see: min(tokens, window).

    Of a source, all.

    The shapes' own length is not taken: transformers drops one token more of a window, as the next step
    would.
    """
    if any(hasattr(layer, "compressed_kv") for layer in cache.layers):
        return sum(_of_blocks(layer, tokens) for layer in cache.layers)
    if tokens is None:
        return sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    per_layer = [
        (sum(prod(x.shape) // x.shape[2] for x in (layer.keys, layer.values)), layer)
        for layer in cache.layers
    ]
    return sum(
        each * min(tokens, getattr(layer, "sliding_window", None) or tokens) for each, layer in per_layer
    )


def _of_blocks(layer: CacheLayerMixin, tokens: int) -> int:
    """Elements of a layer of DeepSeek-V4: one vector of each token of the window is key and value.

    Beside it keys of blocks, tokens of the open block, and what the next block reads of the last.
    """
    near = prod(layer.keys.shape) // layer.keys.shape[2] * min(tokens, layer.sliding_window)
    names = ("compressed_kv", "buffer_kv", "buffer_gate", "overlap_kv", "overlap_gate")
    states = (state for name in names for state in getattr(layer, name, {}).values())
    return near + sum(state.numel() for state in states if state is not None)


def main(ids: list[str]) -> None:
    """Write the figures of these models, or of all, among those that stand already."""
    kept = json.loads(FIGURES.read_text())["models"] if FIGURES.exists() and ids else {}
    for name in ids or sorted(path.stem for path in CONFIGS.glob("*.json")):
        kept[name] = figures(json.loads((CONFIGS / f"{name}.json").read_text()))
        sys.stderr.write(f"{name}\n")
    software = {package: version(package) for package in ("torch", "transformers")}
    FIGURES.write_text(
        json.dumps({"software": software, "models": dict(sorted(kept.items()))}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
