"""Families whose experts run beside another layer: LongCat-Flash, with experts that compute nothing."""

from parity.families.latent import BASE as LATENT
from parity.families.latent import QUIET, YARN
from parity.family import Family, rope

OTHER_WORDS = ("num_hidden_layers", "num_experts_per_tok", "intermediate_size", "moe_intermediate_size")
BASE = {
    **{key: value for key, value in LATENT.items() if key not in OTHER_WORDS},
    "model_type": "longcat_flash",
    "num_layers": 2,
    "head_dim": LATENT["qk_rope_head_dim"],
    "ffn_hidden_size": 40,
    "expert_ffn_hidden_size": 20,
    "moe_topk": 3,
    "n_routed_experts": 6,
    "zero_expert_num": 3,
}
SMALL = {name.replace("self_attn.", "self_attn.*."): scale for name, scale in QUIET.items()}

FAMILIES = {
    "longcat-flash": Family(BASE, quiet=SMALL),
    "longcat-flash-all-real": Family(
        {
            **BASE,
            "zero_expert_num": 0,
            "attention_bias": True,
            "rope_parameters": rope(rope_type="yarn", original_max_position_embeddings=16, **YARN),
        },
        quiet=SMALL,
    ),
    # 2 of 7, five of which compute
    "longcat-flash-uneven": Family({**BASE, "n_routed_experts": 5, "zero_expert_num": 2, "moe_topk": 2}),
}
