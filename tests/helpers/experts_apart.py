"""Families whose experts are linear layers in transformers 4; writes `load/foreign/experts_apart.json`.

None of our code takes part. Run by an interpreter that has transformers 4.57.6, the last of version 4:

    python -m pip install --target OLD transformers==4.57.6
    PYTHONPATH=OLD python tests/helpers/experts_apart.py

The class of each model_type is built on the meta device by its defaults, with few layers and experts. An
adapter that names a module of an expert there has a matrix for each expert.
"""

import json
import logging
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers

OUT = Path(__file__).parents[2] / "archcli/load/foreign/experts_apart.json"
EXPERT = re.compile(r"(^|\.)(block_sparse_moe|mlp|feed_forward|moe|ffn|layer)\b.*\bexperts?[._]\d+\.")
SMALL = {
    "num_hidden_layers": 4,
    "num_layers": 4,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "num_decoder_layers": 4,
    "n_routed_experts": 8,
    "num_local_experts": 8,
    "num_experts": 8,
    "moe_num_experts": 8,
    "attn_layer_offset": 1,
    "attn_layer_period": 2,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "encoder_sparse_step": 2,
    "decoder_sparse_step": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "moe_layer_start_index": 1,
}
"""Sizes in place of the defaults, of the keys that a class has."""
UNSTATED = {"n_shared_experts": 1, "head_dim": 64}
"""Sizes of the keys that a class needs and has no default of."""


def experts_apart(kind: str) -> bool:
    """Whether the class of a model_type holds a linear layer for each expert; false where none builds."""
    defaults = transformers.CONFIG_MAPPING[kind]()
    if not any("expert" in key or "moe" in key for key in vars(defaults)):
        return False
    config = type(defaults)(**_sizes(vars(defaults)))
    with torch.device("meta"):
        model = _auto(config).from_config(config)
    linear = (name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear))
    return any(EXPERT.search(name) for name in linear)


def _sizes(defaults: dict[str, Any]) -> dict[str, Any]:
    """Small sizes of the keys that these defaults have."""
    small = {key: value for key, value in SMALL.items() if key in defaults}
    unstated = {key: value for key, value in UNSTATED.items() if key in defaults and defaults[key] is None}
    kinds = defaults.get("layer_types")
    return {**small, **unstated, **({"layer_types": kinds[: SMALL["num_layers"]]} if kinds else {})}


def _auto(config: Any) -> Any:
    """The mapping that has a class for a config."""
    maps = (
        transformers.AutoModelForCausalLM,
        transformers.AutoModelForSeq2SeqLM,
        transformers.AutoModelForImageTextToText,
        transformers.AutoModel,
    )
    return next(auto for auto in maps if type(config) in auto._model_mapping)


def main() -> None:
    """Write the list, and say which types do not build."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    kinds, failed = [], []
    for kind in transformers.CONFIG_MAPPING:
        try:
            if experts_apart(kind):
                kinds.append(kind)
        except Exception as error:  # noqa: BLE001 what any class may raise
            failed.append(f"{kind}: {type(error).__name__} {str(error)[:80]}")
    entry = {"transformers": transformers.__version__, "model_types": sorted(kinds)}
    OUT.write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
    sys.stderr.write("\n".join(failed) + "\n")


if __name__ == "__main__":
    main()
