"""Arguments of Megatron-LM's pretrain_gpt.py, version 0.16 and later."""

from __future__ import annotations

from itertools import groupby

from archcli.wings.shapes.export.settings import Leaves
from archcli.wings.shapes.export.trainers.table import (
    ATTENTION,
    NOTE,
    Row,
    TrainingProgram,
    biases,
    no_key,
    value_width,
)

ROUTER, SCALING = "layer.ffn.router.", "layer.attention.position.scaling."
CONTEXT = "Megatron-LM needs --max-position-embeddings, which the model leaves open"
NETWORKS = {
    ("mlp", "gelu"): {"bias-gelu-fusion": False},
    ("mlp", "gelu_tanh"): {"bias-gelu-fusion": True},
    ("mlp", "relu2"): {"squared-relu": True, "bias-gelu-fusion": False},
    ("glu", "silu"): {"swiglu": True},
}
YARN = {"original_max_seq_len": 4096, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}
"""YaRN of latent attention, whose other numbers have no argument."""
MOST_PADDING = 128


def _network(activation: str, at: Leaves) -> Leaves | None:
    kind = at["layer.ffn.kind"] if "layer.ffn.expert.kind" not in at else at["layer.ffn.expert.kind"]
    fused = (kind, activation) == ("mlp", "gelu_tanh")  # the kernel that adds the bias alone has the tanh
    return None if fused and not at.get("layer.ffn.bias") else NETWORKS.get((kind, activation))


def _scaling(at: Leaves) -> Leaves:
    return {path.removeprefix(SCALING): it for path, it in at.items() if path.startswith(SCALING)}


def _rope_scaling(kind: str, at: Leaves) -> Leaves | None:
    scaling = _scaling(at)
    if at[f"{ATTENTION}kind"] == "mla":
        return _latent_scaling(kind, scaling)
    if kind == "llama3":  # the other numbers, and another factor, do not reach the model
        numbers = {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_seq_len": 8192,
        }
        return {"use-rope-scaling": True} if numbers.items() <= scaling.items() else None
    if kind == "linear":
        factor = scaling["factor"]
        return {"rotary-seq-len-interpolation-factor": int(factor)} if factor == int(factor) else None
    return {"none": {}}.get(kind)


def _latent_scaling(kind: str, scaling: Leaves) -> Leaves | None:
    if kind == "none":
        return {"rope-type": "rope"}
    exact = kind == "yarn" and YARN.items() <= scaling.items() and scaling["attention_factor"] is None
    if not exact or None in {scaling["mscale"], scaling["mscale_all_dim"]}:
        return None
    return {
        "rope-type": "yarn",
        "rotary-scaling-factor": scaling["factor"],
        "mscale": scaling["mscale"],
        "mscale-all-dim": scaling["mscale_all_dim"],
    }


def _base(theta: float, at: Leaves) -> Leaves | None:
    return {"rotary-base": int(theta)} if theta == int(theta) else None


def _rotary(width: int | None, at: Leaves) -> Leaves | None:
    head = at.get(f"{ATTENTION}head_dim")
    if width is None or not head:
        return {"rotary-percent": 1.0} if width is None else None
    share = width / head
    return {"rotary-percent": share} if int(share * head) == width else None


def _pairing(pairing: str, at: Leaves) -> Leaves | None:
    if at[f"{ATTENTION}kind"] == "mla":
        return {} if pairing == "interleaved" else None
    return {"half": {}, "interleaved": {"rotary-interleaved": True}}[pairing]


def _router(scores: str, at: Leaves) -> Leaves | None:
    """Softmax of the chosen logits or of all of them, or a sigmoid whose choice is normalized."""
    normalized, n_groups, kept, worth = (
        at[ROUTER + name] for name in ("normalized", "n_groups", "top_k_groups", "group_score")
    )
    keys: Leaves = {"moe-router-score-function": scores.removesuffix("_after")}
    if scores == "softmax" and not normalized:
        keys["moe-router-pre-softmax"] = True
    elif not normalized or scores not in {"softmax", "softmax_after", "sigmoid"}:
        return None
    if at[f"{ROUTER}correction"]:
        keys["moe-router-enable-expert-bias"] = True
    if n_groups > 1:
        keys |= {"moe-router-num-groups": n_groups, "moe-router-group-topk": kept}
        known = at["layer.ffn.top_k"] // kept == {"max": 1, "top2": 2}[worth]
        return keys if known else None
    return keys if scores == "sigmoid" or not at[f"{ROUTER}correction"] else None


def _router_scale(scale: float, at: Leaves) -> Leaves:
    return {} if scale == 1.0 else {"moe-router-topk-scaling-factor": scale}


def _latent_norm(kind: str, at: Leaves) -> Leaves:
    return {"qk-layernorm": True, "normalization": {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}[kind]}


ROWS: dict[str, Row] = {
    "vocab_size": "vocab-size",
    "d_model": "hidden-size",
    "max_seq_len": lambda size, at: {"max-position-embeddings": size} if size else {NOTE: CONTEXT},
    "embedding.tied": {True: {}, False: {"untie-embeddings-and-output-weights": True}},
    "embedding.position.kind": {
        "none": {},
        "learned": {"position-embedding-type": "learned_absolute"},
    },
    "embedding.position.max_seq_len": "max-position-embeddings",
    "embedding.dropout": "hidden-dropout",
    "*latent_norm.kind": _latent_norm,
    "*norm.kind": {"rmsnorm": {"normalization": "RMSNorm"}, "layernorm": {"normalization": "LayerNorm"}},
    "*norm.eps": "norm-epsilon",
    "*norm.offset": {0: {"apply-layernorm-1p": False}, 1: {"apply-layernorm-1p": True}},
    "*norm.bias": {True: {}},
    "mtp.kind": {"MultiTokenPrediction": {}},
    "mtp.depth": "mtp-num-layers",
    "mtp.loss_weight": "mtp-loss-scaling-factor",
    "layer.kind": {"pre_norm": {}},
    "layer.dropout": "hidden-dropout",
    "layer.attention.kind": {
        "mha": {},
        "gqa": {"group-query-attention": True},
        "mqa": {"group-query-attention": True, "num-query-groups": 1},
        "mla": {"multi-latent-attention": True},
    },
    "layer.attention.n_heads": "num-attention-heads",
    "layer.attention.n_kv_heads": "num-query-groups",
    "layer.attention.head_dim": "kv-channels",
    "layer.attention.v_head_dim": value_width("v-head-dim"),
    "layer.attention.q_lora_rank": "q-lora-rank",
    "layer.attention.kv_lora_rank": "kv-lora-rank",
    "layer.attention.qk_nope_head_dim": "qk-head-dim",
    "layer.attention.qk_rope_head_dim": "qk-pos-emb-head-dim",
    "layer.attention.bias": biases("bias-linear", "add-qkv-bias"),
    "layer.attention.scale": "softmax-scale",
    "layer.attention.dropout": "attention-dropout",
    "layer.attention.window": "window[]",
    "layer.attention.qk_norm": {None: {"qk-layernorm": False}},
    "layer.attention.qk_norm.per": {"head": {"qk-layernorm": True}},
    "layer.attention.position.kind": {"rope": {"nope[]": 0}, "none": {"nope[]": 1}},
    "layer.attention.position.theta": _base,
    "layer.attention.position.scaling.kind": _rope_scaling,
    "layer.attention.position.scaling.*": no_key,
    "layer.attention.position.rotary_dim": _rotary,
    "layer.attention.position.pairing": _pairing,
    "layer.ffn.kind": {"mlp": {"moe[]": 0}, "glu": {"moe[]": 0}, "moe": {"moe[]": 1}},
    "layer.ffn*.activation.kind": _network,
    "layer.ffn.expert.kind": {"glu": {}, "mlp": {}},
    "layer.ffn.shared.kind": {"glu": {}, "mlp": {}},
    "layer.ffn.d_ff": "ffn-hidden-size",
    "layer.ffn.expert.d_ff": "moe-ffn-hidden-size",
    "layer.ffn.shared.d_ff": "moe-shared-expert-intermediate-size",
    "layer.ffn.shared_gate": "moe-shared-expert-gate",
    "layer.ffn.n_experts": "num-experts",
    "layer.ffn.top_k": "moe-router-topk",
    "layer.ffn.router.scores": _router,
    "layer.ffn.router.scale": _router_scale,
    "layer.ffn.router.bias": {False: {}},
    "layer.ffn.router.n_groups": no_key,
    "layer.ffn.router.top_k_groups": no_key,
    "layer.ffn.router.group_score": no_key,
    "layer.ffn.router.correction": no_key,
    "layer.ffn.router.normalized": no_key,
    "layer.ffn*.bias": {True: {"bias-linear": True}, False: {"bias-linear": False}},
}


def _finish(keys: Leaves) -> Leaves | str:
    """Lists of layers as Megatron writes them, and flags that are named by what they switch off."""
    n_layers, nope, windows, mixtures = (keys.pop(it) for it in ("n_layers", "nope[]", "window[]", "moe[]"))
    keys["num-layers"] = n_layers
    sizes = {size for size in windows if size}
    if len(sizes) > 1:
        return f"layer.attention.window {min(sizes)} and {max(sizes)}"
    if sizes:  # how many keys before its own a query sees
        keys["window-size"] = f"{min(sizes) - 1},0"
        keys["window-attn-skip-freq"] = _pattern([int(size is not None) for size in windows])
    if not all(nope):
        keys["position-embedding-type"] = keys.get("position-embedding-type", "rope")
        keys["no-rope-freq"] = _pattern(nope) if any(nope) else None
    if keys.setdefault("position-embedding-type", "none") == "learned_absolute" and not all(nope):
        return "RoPE beside learned positions"
    if any(mixtures):
        keys["moe-layer-freq"] = _pattern(mixtures)
    keys["make-vocab-size-divisible-by"] = keys["vocab-size"] & -keys["vocab-size"] & (2 * MOST_PADDING - 1)
    if not keys["make-vocab-size-divisible-by"]:
        keys["make-vocab-size-divisible-by"] = MOST_PADDING
    off = {"bias-linear": "disable-bias-linear", "bias-gelu-fusion": "no-bias-gelu-fusion"}
    return {**keys, **{flag: not keys[key] for key, flag in off.items() if key in keys}, **dict.fromkeys(off)}


def _pattern(layers: list[int]) -> str:
    """A list of layers in Megatron's words: ([0]*3+[1]*58)."""
    return f"({'+'.join(f'[{value}]*{len(list(run))}' for value, run in groupby(layers))})"


def _text(name: str, keys: Leaves) -> str:
    """One argument a line; flags have no value."""
    lines = {key: "" if value is True else f" {value}" for key, value in keys.items()}
    return "".join(
        f"--{key}{lines[key]}\n" for key in lines if keys[key] is not None and keys[key] is not False
    )


TRAINER = TrainingProgram(
    "Megatron-LM", {"attention-dropout": 0.0, "hidden-dropout": 0.0}, ROWS, _finish, _text
)
