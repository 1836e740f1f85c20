"""What other people's software says of the presets: regenerates `figures.json` from the configs beside it. None of our code takes part.

    python tests/oracle/regenerate.py [ID …]

Each `configs/ID.json` holds the sizes and settings of a model as its Hugging Face `config.json` states them (two are Llama
classes by another name: llama-3.1-405b as published, and cs336-small, which is built the same way). The `transformers` class
of that config is built on torch's meta device, where tensors have shapes but no numbers; its tensors are counted, and
`FlopCounterMode` counts its eager forward. Conventions: FLOP = 2 multiply-adds, matrix products only, batch 1, attention over
all S x S pairs, logits at every position; tied tensors once, buffers not at all.
"""

import json
import re
import sys
from collections import Counter
from importlib.metadata import version
from math import prod
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel

HERE = Path(__file__).parent
CONFIGS, FIGURES = HERE / "configs", HERE / "figures.json"
LENGTHS, PAST, CONTEXTS = (512, 2048), 1024, (1024, 8192)

# The first pattern found in a tensor's name says what it belongs to.
GROUPS = {
    r"\.[qk]_norm\.": "qk_norm",
    r"\.(q|kv)_a_layernorm\.": "mla_latent_norm",
    r"norm|\.ln_": "norms",
    r"wpe": "position_embedding",
    r"wte|embed_tokens|embed_in|word_embeddings": "embedding",
    r"lm_head|embed_out": "lm_head",
    r"\.shared_experts\.": "shared_experts",
    r"\.experts\.": "experts",
    r"\.mlp\.gate\.": "router",
    r"\.mlp\.": "ffn",
    r"attn|attention": "attention",
}


def figures(settings: dict) -> dict:
    """All figures of one config."""
    config = AutoConfig.for_model(**settings)
    with torch.device("meta"):
        # batched_mm is the form of the experts whose products FlopCounterMode sees
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", experts_implementation="batched_mm").eval()
        return {
            **_params(model),
            "flops": {str(n): _flops(model, n) for n in LENGTHS},
            "decode_flops": {str(PAST): _flops(model, 1, _filled(model, PAST))},
            "kv_elements": {str(n): _elements(_filled(model, n), n) for n in CONTEXTS},
        }


def _params(model: PreTrainedModel) -> dict:
    """Parameters in all, per token (of E stacked experts, k), and by group."""
    by_group, idle = Counter(), 0
    for name, tensor in model.named_parameters():
        group = next(group for pattern, group in GROUPS.items() if re.search(pattern, name))
        by_group[group] += tensor.numel()
        if group == "experts":
            experts = tensor.shape[0]
            idle += tensor.numel() // experts * (experts - model.config.num_experts_per_tok)
    total = by_group.total()
    return {"params": total, "active_params": total - idle, "by_group": dict(sorted(by_group.items()))}


def _flops(model: PreTrainedModel, new: int, cache: DynamicCache | None = None) -> int:
    """FLOPs of one forward over `new` tokens behind the cached ones."""
    counter = FlopCounterMode(display=False)
    with counter:
        _run(model, new, cache)
    return counter.get_total_flops()


def _filled(model: PreTrainedModel, tokens: int) -> DynamicCache:
    """The cache after a prefill of that many tokens."""
    cache = DynamicCache(config=model.config)
    _run(model, tokens, cache)
    return cache


@torch.no_grad()
def _run(model: PreTrainedModel, new: int, cache: DynamicCache | None) -> None:
    """One forward. Without a mask, transformers would look for packed sequences in the numbers of the positions."""
    mask = torch.ones(1, new if cache is None else cache.get_seq_length() + new, dtype=torch.long)
    model(input_ids=torch.zeros(1, new, dtype=torch.long), attention_mask=mask, past_key_values=cache, use_cache=cache is not None)


def _elements(cache: DynamicCache, tokens: int) -> int:
    """Elements cached per token and layer, for the tokens the layer can still see: min(tokens, window).

    The shapes' own length is not taken: transformers drops one token more of a window, as the next step would.
    """
    per_layer = [(sum(prod(x.shape) // x.shape[2] for x in (layer.keys, layer.values)), layer) for layer in cache.layers]
    return sum(each * min(tokens, getattr(layer, "sliding_window", None) or tokens) for each, layer in per_layer)


def main(ids: list[str]) -> None:
    """Write the figures of these models, or of all, among those that stand already."""
    kept = json.loads(FIGURES.read_text())["models"] if FIGURES.exists() and ids else {}
    for name in ids or sorted(path.stem for path in CONFIGS.glob("*.json")):
        kept[name] = figures(json.loads((CONFIGS / f"{name}.json").read_text()))
        sys.stderr.write(f"{name}\n")
    software = {package: version(package) for package in ("torch", "transformers")}
    FIGURES.write_text(json.dumps({"software": software, "models": dict(sorted(kept.items()))}, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
