"""LitGPT's model_config.yaml: the keys of `litgpt.Config`, version 0.5."""

from __future__ import annotations

from archcli.wings.shapes.export.settings import Leaves
from archcli.wings.shapes.export.trainers.table import (
    ATTENTION,
    NOTE,
    Row,
    TrainingProgram,
    as_yaml,
    biases,
    no_key,
    value_width,
)

TIED = "LitGPT ties head and embedding by an option of its pretraining: --train.tie_embeddings true"
NETWORKS = {
    ("mlp", "gelu"): {"mlp_class_name": "GptNeoxMLP", "gelu_approximate": "none"},
    ("mlp", "gelu_tanh"): {"mlp_class_name": "GptNeoxMLP", "gelu_approximate": "tanh"},
    ("glu", "silu"): {"mlp_class_name": "LLaMAMLP"},
    ("glu", "gelu"): {"mlp_class_name": "GemmaMLP", "gelu_approximate": "none"},
    ("glu", "gelu_tanh"): {"mlp_class_name": "GemmaMLP", "gelu_approximate": "tanh"},
    ("moe", "silu"): {},
}
TINY = 1e-12
LATENT = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
ROUTER, SCALING = "layer.ffn.router.", "layer.attention.position.scaling."


def _rope(theta: float, at: Leaves) -> Leaves:
    """Base and scaling of a layer."""
    scaling = {path.removeprefix(SCALING): it for path, it in at.items() if path.startswith(SCALING)}
    scaling.pop("kind")
    return {"rope[]": (theta, tuple(scaling.items()))}


def _rotary(width: int | None, at: Leaves) -> Leaves | None:
    head = at.get(f"{ATTENTION}head_dim")
    if width is None or not head:
        return {"rotary_percentage": 1.0} if width is None else None
    share = width / head
    return {"rotary_percentage": share} if int(share * head) == width else None


def _scale(scale: float | None, at: Leaves) -> Leaves | None:
    """The width d of a scale 1 / sqrt(d)."""
    if scale is None:
        return {"attention_scores_scalar": None}
    width = round(scale**-2)
    return {"attention_scores_scalar": width} if abs(width**-0.5 - scale) < TINY * scale else None


def _network(activation: str, at: Leaves) -> Leaves | None:
    return NETWORKS.get((at["layer.ffn.kind"], activation))


def _router(scores: str, at: Leaves) -> Leaves | None:
    """The softmax of the chosen logits, or the sigmoid within groups of DeepSeek-V3."""
    setting = {name: at[ROUTER + name] for name in ("n_groups", "correction", "normalized", "group_score")}
    if setting["n_groups"] == 1:
        usual = scores in {"softmax", "softmax_after"} and setting["normalized"]
        return {} if usual and not setting["correction"] else None
    keys = {
        "n_expert_groups": setting["n_groups"],
        "n_topk_groups": at[f"{ROUTER}top_k_groups"],
        "n_topk_scores_per_group": {"max": 1, "top2": 2}[setting["group_score"]],
        "norm_topk_prob": setting["normalized"],
    }
    return keys if scores == "sigmoid" and setting["correction"] else None


def _shared(width: int, at: Leaves) -> Leaves | None:
    n, rest = divmod(width, at["layer.ffn.expert.d_ff"])
    return None if rest else {"n_shared_expert": n}


ROWS: dict[str, Row] = {
    "vocab_size": "vocab_size",
    "d_model": "n_embd",
    "max_seq_len": "block_size",
    "embedding.tied": {True: {NOTE: TIED}, False: {}},
    "embedding.scale": {None: {"scale_embeddings": False}, "sqrt_d_model": {"scale_embeddings": True}},
    "head.bias": "lm_head_bias",
    "head.softcap": "final_logit_softcapping",
    "*norm.kind": {"rmsnorm": {"norm_class_name": "RMSNorm"}, "layernorm": {"norm_class_name": "LayerNorm"}},
    "*norm.eps": "norm_eps",
    "*norm.offset": "offset",
    "*norm.weight": "weighted",
    "*norm.bias": "norm_bias",
    "layer.kind": {
        "pre_norm": {},
        "parallel": {"parallel_residual": True},
        "sandwich": {"post_attention_norm": True, "post_mlp_norm": True},
        "norm_after": {"norm_1": False, "norm_2": False, "post_attention_norm": True, "post_mlp_norm": True},
    },
    "layer.n_norms": {1: {"shared_attention_norm": True}, 2: {}},
    "layer.attention.kind": {"mha": {}, "gqa": {}, "mqa": {"n_query_groups": 1}, "mla": {"mla": True}},
    "layer.attention.n_heads": "n_head",
    "layer.attention.n_kv_heads": "n_query_groups",
    "layer.attention.head_dim": "head_size",
    "layer.attention.v_head_dim": value_width("v_head_dim"),
    "layer.attention.q_lora_rank": lambda rank, at: {"q_lora_rank": rank} if rank else None,
    "layer.attention.kv_lora_rank": "kv_lora_rank",
    "layer.attention.bias": biases("bias", "attn_bias"),
    "layer.attention.scale": _scale,
    "layer.attention.softcap": "attention_logit_softcapping",
    "layer.attention.window": "window[]",
    "layer.attention.qk_norm": {None: {"norm_qk": False}},
    "layer.attention.qk_norm.per": {
        "head": {"norm_qk": True},
        "full": {"norm_qk": True, "norm_qk_type": "olmo2"},
    },
    "layer.attention.position.kind": {"rope": {}},
    "layer.attention.position.theta": _rope,
    # not YaRN: the ramp of LitGPT 0.5.13 runs from the fast pairs to the slow ones
    "layer.attention.position.scaling.kind": {"none": {}, "linear": {}, "llama3": {}},
    "layer.attention.position.scaling.*": no_key,
    "layer.attention.position.rotary_dim": _rotary,
    "layer.attention.position.pairing": {
        "half": {"rope_interleave": False},
        "interleaved": {"rope_interleave": True},
    },
    "layer.ffn.kind": {"mlp": {"moe[]": False}, "glu": {"moe[]": False}, "moe": {"moe[]": True}},
    "layer.ffn*.activation.kind": _network,
    "layer.ffn.expert.kind": {"glu": {}},
    "layer.ffn.shared.kind": {"glu": {}},
    "layer.ffn.d_ff": "intermediate_size",
    "layer.ffn.expert.d_ff": "moe_intermediate_size",
    "layer.ffn.shared.d_ff": _shared,
    "layer.ffn.n_experts": "n_expert",
    "layer.ffn.top_k": "n_expert_per_token",
    "layer.ffn.router.scores": _router,
    "layer.ffn.router.scale": "routed_scaling_factor",
    "layer.ffn.router.bias": {False: {}},
    "layer.ffn.router.n_groups": no_key,
    "layer.ffn.router.top_k_groups": no_key,
    "layer.ffn.router.group_score": no_key,
    "layer.ffn.router.correction": no_key,
    "layer.ffn.router.normalized": no_key,
    "layer.ffn*.bias": {True: {"bias": True}, False: {"bias": False}},
}
ROWS |= {f"layer.attention.qk_{part}_head_dim": f"qk_{part}_head_dim" for part in ("nope", "rope")}


def _finish(keys: Leaves) -> Leaves | str:
    """Lists of layers as LitGPT has them, and the norms that it knows by a model's name."""
    for step in (_norms, _windows, _bases, _mixtures, _latent):
        refused = step(keys)
        if refused:
            return refused
    keys["n_layer"], keys["padded_vocab_size"] = keys.pop("n_layers"), keys["vocab_size"]
    return keys


def _norms(keys: Leaves) -> str:
    kind, bias = keys["norm_class_name"], keys.pop("norm_bias", None)
    norm = (kind, keys.pop("offset"), keys.pop("weighted"), bias)
    names = {
        ("RMSNorm", 0, True, None): "",
        ("RMSNorm", 1, True, None): "Gemma-",
        ("LayerNorm", 0, True, True): "",
        ("LayerNorm", 0, False, False): "OLMo-",
    }
    keys["name"] = names.get(norm, "")
    return (
        "" if norm in names else f"norm {kind.lower()} with offset {norm[1]}, weight {norm[2]}, bias {bias}"
    )


def _windows(keys: Leaves) -> str:
    windows = keys.pop("window[]")
    sizes = {it for it in windows if it}
    if sizes:
        keys["sliding_window_size"] = min(sizes)
        keys["sliding_window_indices"] = [int(it is not None) for it in windows]
    return f"layer.attention.window {min(sizes)} and {max(sizes)}" if len(sizes) > 1 else ""


def _bases(keys: Leaves) -> str:
    """One kind of RoPE, or a second one of layers whose frequencies are not scaled."""
    ropes = keys.pop("rope[]")
    kinds = list(dict.fromkeys(ropes))
    local = next((it for it in kinds if not it[1]), None) if len(kinds) > 1 else None
    rest = [it for it in kinds if it != local]
    if len(rest) > 1:
        return "layers with these RoPE: " + ", ".join(f"theta {theta:g}" for theta, _ in kinds)
    keys["rope_base"], keys["rope_adjustments"] = _whole(rest[0][0]), dict(rest[0][1]) or None
    if local:
        keys["rope_local_base_freq"] = local[0]
        keys["rope_indices"] = [int(it == local) for it in ropes]
    return ""


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def _mixtures(keys: Leaves) -> str:
    mixtures = keys.pop("moe[]")
    dense = mixtures.index(True) if True in mixtures else len(mixtures)
    if not any(mixtures):
        return ""
    keys["first_k_dense_replace"] = dense or None
    keys["mlp_class_name"], network = "LLaMAMoE", keys.get("mlp_class_name", "LLaMAMLP")
    if network != "LLaMAMLP":
        return f"layer.ffn {network} before mixtures"
    return "" if all(mixtures[dense:]) else "dense layers behind the first mixture"


def _latent(keys: Leaves) -> str:
    if not keys.pop("mla", False):
        return ""
    keys["latent_attention"] = {name: keys.pop(name) for name in LATENT}
    keys["head_size"] = sum(keys["latent_attention"][f"qk_{part}_head_dim"] for part in ("nope", "rope"))
    return "norm.offset 1 beside mla" if keys["name"] else ""


def _text(name: str, keys: Leaves) -> str:
    """LitGPT looks for Gemma and OLMo in the name: what is no such norm has the name in small letters."""
    known = keys["name"]
    return as_yaml({**keys, "name": known + name.lower().removeprefix(known.lower())})


TRAINER = TrainingProgram(
    "LitGPT", {"parallel_residual": False, "rotary_percentage": 1.0}, ROWS, _finish, _text
)
