"""DeepSeek's inference/configs/*.json, with the defaults of ModelArgs in its inference/model.py."""

from __future__ import annotations

from archcli.load.foreign.renamed import Renamed
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue

KEYS = frozenset(("kv_lora_rank", "moe_inter_dim", "inter_dim"))
OF_V4 = ("hc_mult", "compress_ratios", "o_lora_rank", "n_hash_layers", "o_groups")
SIZES = {
    "dim": ("hidden_size", 2048),
    "inter_dim": ("intermediate_size", 10944),
    "moe_inter_dim": ("moe_intermediate_size", 1408),
    "n_layers": ("num_hidden_layers", 27),
    "n_heads": ("num_attention_heads", 16),
    "n_routed_experts": ("n_routed_experts", 64),
    "n_shared_experts": ("n_shared_experts", 2),
    "n_activated_experts": ("num_experts_per_tok", 6),
    "n_expert_groups": ("n_group", 1),
    "n_limited_groups": ("topk_group", 1),
    "kv_lora_rank": ("kv_lora_rank", 512),
    "qk_nope_head_dim": ("qk_nope_head_dim", 128),
    "qk_rope_head_dim": ("qk_rope_head_dim", 64),
    "v_head_dim": ("v_head_dim", 128),
}
"""By DeepSeek's name of a size: transformers' name, and the default of ModelArgs."""

INDEXER = ("index_n_heads", "index_head_dim", "index_topk")
BLOCK = 128
"""The side of the squares that share a scale: block_size of inference/model.py."""


def is_deepseek(config: Config) -> bool:
    """Whether a file has DeepSeek's words for an architecture."""
    return not KEYS.isdisjoint(config.data) and not {"hidden_dim", "moe"}.intersection(config.data)


def of_deepseek(config: Config, data: Renamed) -> None:
    """DeepSeek-V2, V3 and V3.2, told apart by their router and their indexer."""
    for key in OF_V4:
        if config.get(key, default=None):
            what = f"{key} stands for DeepSeek-V4, which is not read from this file"
            raise config.error(what, "give the model's config.json", config.place(key))
    config.only("score_func", "softmax", "sigmoid", default="softmax")
    is_v3 = config.get("score_func", default="softmax") == "sigmoid"
    indexed = config.get(*INDEXER, default=None) is not None
    data.put("deepseek_v32" if indexed else "deepseek_v3" if is_v3 else "deepseek_v2")
    for name, (theirs, default) in SIZES.items():
        data[theirs] = config.size(name, default=default)
    data["first_k_dense_replace"] = config.count("n_dense_layers", default=1)
    data["num_key_value_heads"] = data["num_attention_heads"]
    rank = config.count("q_lora_rank", default=0)
    data["q_lora_rank"] = rank if rank.value else None
    if indexed:
        data.update({key: config.size(key) for key in INDEXER})
    grouped = data["n_group"].value > 1
    greedy = "group_limited_greedy" if grouped else "greedy"
    data.update(topk_method="noaux_tc" if is_v3 else greedy, tie_word_embeddings=False)
    data["routed_scaling_factor"] = config.number("route_scale", default=1.0)
    data.update(scoring_func="sigmoid" if is_v3 else "softmax", norm_topk_prob=is_v3)
    _rope(config, data)
    _form(config, data)


def _rope(config: Config, data: Renamed) -> None:
    """YaRN, as inference/model.py uses it beyond the original length."""
    data["rope_theta"] = config.number("rope_theta", default=10000.0)
    scale = config.number("mscale", default=1.0).value
    data["rope_scaling"] = {
        "type": "yarn",
        "factor": config.number("rope_factor", default=40).value,
        "original_max_position_embeddings": config.size("original_seq_len", default=4096).value,
        "beta_fast": config.number("beta_fast", default=32).value,
        "beta_slow": config.number("beta_slow", default=1).value,
        "mscale": scale,
        "mscale_all_dim": scale,
    }
    data.longest = config.optional_size("max_seq_len")


def _form(config: Config, data: Renamed) -> None:
    """The form of the stored weights: FP8 with a scale for each square of 128, else 16 bits."""
    dtype = config.value("dtype", default="bf16")
    config.only("dtype", "bf16", "fp8", default="bf16")
    config.ignore("scale_fmt", "scale_dtype")
    experts = config.get("expert_dtype", default=None)
    if dtype.value == "fp8" or experts is not None:
        form = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"}
        form |= {} if experts is None else {"expert_dtype": experts, "scale_fmt": "ue8m0"}
        data["quantization_config"] = ConfigValue({**form, "weight_block_size": [BLOCK, BLOCK]}, dtype.place)
