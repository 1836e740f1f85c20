"""Families whose layers have an indexer: with many index heads, as of few the scores tie at 0."""

from parity.families.latent import BASE as LATENT
from parity.families.latent import QUIET, YARN
from parity.family import Family, rope

# k's norm has an eps of 1e-6
SMALL_KEYS = {**QUIET, "model.layers.*.self_attn.indexer.wk.weight": 0.002}
BASE = {**LATENT, "n_shared_experts": 1, "index_n_heads": 16, "index_head_dim": 12, "index_topk": 5}
GROUPED = {"n_group": 4, "topk_group": 2}
STRETCHED = rope(rope_type="yarn", original_max_position_embeddings=16, **YARN)

GATED = {**BASE, "model_type": "axk2", "gated_norm_rank": 7}

LAYERS = [f"groups.{i}.layer.attention" for i in range(2)]
OF_INDEX = ("top_k+1", "top_k-1", "pairing=interleaved")
OF_NORM = ("eps*10", "offset=1", "no bias", "RMSNorm")
CHANGES = (": no index", *(f".index: {it}" for it in OF_INDEX), *(f".index.norm: {it}" for it in OF_NORM))
EVERY_KEY = {
    f"{layer}{change}": "every key is chosen, whatever the indexer says"
    for layer in LAYERS
    for change in CHANGES
}
AS_ATTENTION = {f"{layer}.index: pairing=interleaved": "as the attention pairs" for layer in LAYERS}

FAMILIES = {
    "deepseek-v3.2": Family(
        {**BASE, "model_type": "deepseek_v32", **GROUPED, "rope_parameters": STRETCHED}, quiet=SMALL_KEYS
    ),
    "deepseek-v3.2-few-heads": Family(
        {
            **BASE,
            "model_type": "deepseek_v32",
            **GROUPED,
            "index_n_heads": 2,
            "index_topk": 64,
            "attention_bias": True,
            "mlp_layer_types": ["sparse", "dense"],
        },
        quiet=QUIET,
        inert=EVERY_KEY,
    ),
    "axk2": Family({**GATED, "rope_parameters": STRETCHED}, quiet=SMALL_KEYS),
    "axk2-grouped": Family(
        {**GATED, **GROUPED, "attention_bias": True, "mlp_layer_types": ["sparse", "sparse"]},
        quiet=SMALL_KEYS,
    ),
    "glm-moe-dsa": Family(
        {**BASE, "model_type": "glm_moe_dsa", **GROUPED}, quiet=SMALL_KEYS, inert=AS_ATTENTION
    ),
}
