"""Derive keys of the config.json for GGUF architectures with conventions of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from archcli.errors import shorten
from archcli.load.gguf.derived import HYBRID, gemma3n, gemma4, query_scale, step35
from archcli.load.gguf.facts import SIGMOID, ConfigData, Facts
from archcli.load.huggingface.parts.attention import FULL
from archcli.load.huggingface.parts.recurrent import LINEAR

FLOAT_DIGITS = 5
"""Decimals of a factor that survive a float of 32 bits."""

LATENT_ARCHS = ("deepseek2", "deepseek32", "glm-dsa", "minicpm3", "kimi-linear")
"""Architectures with latent attention: keys wider than values, RoPE on a part of a key."""


def _phi3(facts: Facts, config: ConfigData) -> None:
    """Drop a window of 0, which means full attention."""
    config["sliding_window"] = facts.whole("attention.sliding_window", 0) or None


def _chatglm(facts: Facts, config: ConfigData) -> None:
    """Set the head width, which no key states, and biases of fused or separate queries, keys and values."""
    heads = max(1, facts.whole("attention.head_count"))
    config.setdefault("head_dim", facts.whole("embedding_length") // heads)
    config["attention_bias"] = any(facts.has(f"blk.0.attn_{part}.bias") for part in ("qkv", "q"))


def _falcon(facts: Facts, config: ConfigData) -> None:
    """Detect Falcon's new architecture: two norms, or kv heads that are neither 1 nor all."""
    kv_heads, norms = config["num_kv_heads"], 1 + facts.has("blk.0.attn_norm_2.weight")
    new = norms > 1 or kv_heads not in (1, config["num_attention_heads"])
    config |= {
        "new_decoder_architecture": new,
        "multi_query": kv_heads == 1,
        "parallel_attn": True,
        "alibi": False,
    }
    config |= {"num_ln_in_parallel_attn": norms} if new else {}
    if norms > 1:
        # of Falcon 40B's two norms ln_mlp is attn_norm, and ln_attn attn_norm_2 (gguf-py's tensor_mapping.py)
        tensors = {"attn_norm": "ffn_norm", "attn_norm_2": "attention_norm"}
        facts.arch = facts.arch._replace(tensors=tensors)
    config.pop("intermediate_size", None)


def _mpt(facts: Facts, config: ConfigData) -> None:
    """Move the keys of attention into the mapping `attn_config`."""
    bias, clip = facts.number("attention.max_alibi_bias"), facts.get("attention.clamp_kqv")
    config["attn_config"] = {"alibi": bias > 0, "alibi_bias_max": bias, "clip_qkv": clip}
    config["expansion_ratio"] = facts.whole("feed_forward_length") / max(1, facts.whole("embedding_length"))
    config["no_bias"] = not facts.has("blk.0.attn_qkv.bias")
    _drop_keys(config, "intermediate_size", "num_key_value_heads")


def _deepseek2(facts: Facts, config: ConfigData) -> None:
    """Set the head widths (in `*_mla` keys since 2025) and the keys whose defaults differ."""
    mla = "_mla" if facts.get("attention.key_length_mla") is not None else ""
    _latent_heads(facts, config, f"attention.key_length{mla}")
    config["v_head_dim"] = facts.whole(f"attention.value_length{mla}")
    facts.trace("v_head_dim", f"attention.value_length{mla}")
    # V2-Lite projects queries directly; the class's default is a latent of 1536
    config.setdefault("q_lora_rank", None)
    config["attention_bias"] = facts.has("blk.0.attn_kv_a_mqa.bias")
    config.setdefault("n_shared_experts", None)
    config.setdefault("norm_topk_prob", False)
    config.setdefault("routed_scaling_factor", 1.0)
    groups = facts.whole("expert_group_count", 0) > 1
    # DeepseekV3Config would choose 4 of 8 groups
    if facts.arch.model_type != "deepseek_v2":
        config["n_group"], config["topk_group"] = config.get("n_group", 1), config.get("topk_group", 1)
    else:
        config["topk_method"] = "group_limited_greedy" if groups else "greedy"
    # since 2025 these two are those of the absorbed form: one head that all query heads read
    _drop_keys(config, "head_dim", "num_key_value_heads")
    _without_prediction(facts, config)


def _deepseek_sparse(facts: Facts, config: ConfigData) -> None:
    """As `_deepseek2`; refuse files in which layers lack an indexer, as they share one."""
    _deepseek2(facts, config)
    indexers = sum(name.endswith(".indexer.proj.weight") for name in facts.header.tensors)
    if indexers < config["num_hidden_layers"]:
        what = f"{indexers} of {config['num_hidden_layers']} layers have an indexer"
        raise facts.error(f"{what}: layers that share the index of an earlier one are not supported")


SCORES = {1: "softmax", SIGMOID: "sigmoid", 4: "sqrtsoftplus"}
"""Values of `expert_gating_func`, and their names in a config.json of DeepSeek-V4."""


def _deepseek4(facts: Facts, config: ConfigData) -> None:
    """Set the compression of each layer's keys, and the scores of experts."""
    config["compress_ratios"] = facts.of_layers("attention.compress_ratios", longer=True)
    facts.trace("compress_ratios", "attention.compress_ratios")
    scores = facts.get("expert_gating_func")
    if scores is not None and scores not in SCORES:
        raise facts.error(f"{facts.name}.expert_gating_func {shorten(repr(scores))} is not supported")
    config["scoring_func"] = SCORES.get(scores, "sqrtsoftplus")


def _latent_heads(facts: Facts, config: ConfigData, key: str) -> None:
    """Set the key widths of latent attention: dims with RoPE and without."""
    rotated = facts.whole("rope.dimension_count")
    config |= {"qk_rope_head_dim": rotated, "qk_nope_head_dim": facts.whole(key) - rotated}
    facts.trace("qk_rope_head_dim", "rope.dimension_count")
    facts.trace("qk_nope_head_dim", key)


def _without_prediction(facts: Facts, config: ConfigData) -> None:
    """Subtract the multi-token prediction layers, which `block_count` includes."""
    config["num_hidden_layers"] = facts.whole("block_count") - facts.whole("nextn_predict_layers", 0)


def _minicpm3(facts: Facts, config: ConfigData) -> None:
    """Set v_head_dim: the rows per head of the latent's up-projection less those of the key."""
    heads = max(1, facts.whole("attention.head_count"))
    _latent_heads(facts, config, "attention.key_length")
    if table := facts.header.tensors.get("blk.0.attn_kv_b.weight"):
        config["v_head_dim"] = table.shape[0] // heads - config["qk_nope_head_dim"]
    _drop_keys(config, "head_dim", "num_key_value_heads")


def _llama4(facts: Facts, config: ConfigData) -> None:
    """Set use_qk_norm: false for the model with 128 experts, by the same test as in llama.cpp."""
    config["use_qk_norm"] = facts.get("expert_count") != 128  # noqa: PLR2004


def _t5(facts: Facts, config: ConfigData) -> None:
    """Set feed_forward_proj: gated GELU where gates are stored (T5 v1.1), else ReLU."""
    config["feed_forward_proj"] = "gated-gelu" if facts.has("enc.blk.0.ffn_gate.weight") else "relu"
    _drop_keys(config, "num_key_value_heads")


def _bert(facts: Facts, config: ConfigData) -> None:
    """Set type_vocab_size by the segment table; BERT files of GGUF have no vocabulary head."""
    table = facts.header.tensors.get("token_types.weight")
    types = facts.header.metadata.get("tokenizer.ggml.token_type_count", 0)
    config["type_vocab_size"] = table.shape[0] if table else types
    config["tie_word_embeddings"] = True
    _drop_keys(config, "num_key_value_heads")


def _starcoder(facts: Facts, config: ConfigData) -> None:
    """Set multi_query: one head of keys and values, else as many as there are of queries."""
    config["multi_query"] = facts.whole("attention.head_count_kv", 1) == 1


def _exaone4(facts: Facts, config: ConfigData) -> None:
    """Set no window where none is stated; the class has one by default."""
    config["sliding_window"] = facts.get("attention.sliding_window")


def _glm4moe(facts: Facts, config: ConfigData) -> None:
    """Set no dense layers where none are stated, and leave out multi-token prediction."""
    config.setdefault("first_k_dense_replace", 0)
    _without_prediction(facts, config)


def _dbrx(facts: Facts, config: ConfigData) -> None:
    """Move the keys of experts and heads into the mappings `ffn_config` and `attn_config`."""
    config["ffn_config"] = {
        "ffn_hidden_size": facts.whole("feed_forward_length"),
        "moe_num_experts": facts.whole("expert_count"),
        "moe_top_k": facts.whole("expert_used_count"),
    }
    config["attn_config"] = {
        "kv_n_heads": facts.whole("attention.head_count_kv"),
        "clip_qkv": facts.get("attention.clamp_kqv"),
        "rope_theta": facts.number("rope.freq_base", 10000.0),
    }


def _qwen(facts: Facts, config: ConfigData) -> None:
    """Set the width of heads, which no key states: an even split."""
    heads = max(1, facts.whole("attention.head_count"))
    config["kv_channels"] = facts.whole("embedding_length") // heads


def _minicpm(facts: Facts, config: ConfigData) -> None:
    """Set the depth and width that determine MiniCPM's factors on residuals and logits."""
    layers, width = facts.whole("block_count"), facts.whole("embedding_length")
    # the converter stores scale_depth / sqrt(layers), and hidden_size / dim_model_base
    config["scale_depth"] = round(facts.number("residual_scale", 1.0) * layers**0.5, FLOAT_DIGITS)
    config["dim_model_base"] = round(width / facts.number("logit_scale", 1.0))


def _delta_hybrid(facts: Facts, config: ConfigData) -> None:
    """Set the width of a value head, and the kinds of layers where a truth value for each is stated."""
    heads = max(1, facts.whole("ssm.time_step_rank"))
    config["linear_value_head_dim"] = facts.whole("ssm.inner_size") // heads
    facts.trace("linear_value_head_dim", "ssm.inner_size")
    _without_prediction(facts, config)
    if facts.per_layer("attention.recurrent_layers") is not None:
        recurrent = facts.of_layers("attention.recurrent_layers")
        facts.trace("layer_types", "attention.recurrent_layers")
        kinds = [LINEAR if kind else FULL for kind in recurrent]
        # the list has entries for prediction layers as well
        config["layer_types"] = kinds[: config["num_hidden_layers"]]


def _kimi_linear(facts: Facts, config: ConfigData) -> None:
    """Set the widths of latent attention, and the kinds of layers: those without kv heads are recurrent."""
    _latent_heads(facts, config, "attention.key_length_mla")
    config["v_head_dim"] = facts.whole("attention.value_length_mla")
    facts.trace("v_head_dim", "attention.value_length_mla")
    attends = facts.of_layers("attention.head_count_kv")
    config["layer_types"] = [FULL if heads else LINEAR for heads in attends]
    facts.trace("layer_types", "attention.head_count_kv")
    config["linear_num_heads"] = facts.whole("attention.head_count")
    facts.trace("linear_num_heads", "attention.head_count")


def _drop_keys(config: ConfigData, *keys: str) -> None:
    for key in keys:
        config.pop(key, None)


SPECIAL: Mapping[str, Callable[[Facts, ConfigData], None]] = {
    # Gemma 2 27B has 46 layers, and Gemma 3 27B 62
    "gemma2": query_scale(46),
    "gemma3": query_scale(62),
    "gemma3n": gemma3n,
    "gemma4": gemma4,
    "step35": step35,
    "phi3": _phi3,
    "chatglm": _chatglm,
    "falcon": _falcon,
    "mpt": _mpt,
    "deepseek2": _deepseek2,
    "deepseek4": _deepseek4,
    **dict.fromkeys(("deepseek32", "glm-dsa"), _deepseek_sparse),
    "glm4moe": _glm4moe,
    "exaone4": _exaone4,
    "starcoder": _starcoder,
    "minicpm3": _minicpm3,
    "minicpm": _minicpm,
    "qwen": _qwen,
    "dbrx": _dbrx,
    "llama4": _llama4,
    "t5": _t5,
    **dict.fromkeys(("qwen3next", "qwen35", "qwen35moe"), _delta_hybrid),
    "kimi-linear": _kimi_linear,
    **HYBRID,
    "bert": _bert,
}
