"""A module for torchtitan's --module, version 0.3: the model of its blocks, and a run."""

from __future__ import annotations

from archcli.wings.shapes.export.settings import Leaves
from archcli.wings.shapes.export.trainers.table import (
    ATTENTION,
    NOTE,
    Row,
    TrainingProgram,
    no_key,
    value_width,
)

ROUTER, SCALING = "layer.ffn.router.", "layer.attention.position.scaling."
PAIRS = (
    "torchtitan scales RoPE as Llama 3 does for pairs (2i, 2i + 1) alone: it permutes the rows of Wq and Wk "
    "of weights from Hugging Face"
)
CONTEXT = "the model leaves max_seq_len open: the table of RoPE has 4096 positions"


def _scaling(at: Leaves) -> Leaves:
    return {path.removeprefix(SCALING): it for path, it in at.items() if path.startswith(SCALING)}


def _pairing(pairing: str, at: Leaves) -> Leaves | None:
    """The class of RoPE: of pairs (i, i + d/2), or of complex numbers, which alone are scaled."""
    scaled = at[f"{SCALING}kind"] != "none"
    if at[f"{ATTENTION}kind"] == "mla" or pairing == "interleaved":
        return {"rope_class": "ComplexRoPE"} if pairing == "interleaved" else None
    return {"rope_class": "ComplexRoPE", NOTE: PAIRS} if scaled else {"rope_class": "CosSinRoPE"}


def _rope(theta: float, at: Leaves) -> Leaves | None:
    scaling, latent = _scaling(at), at[f"{ATTENTION}kind"] == "mla"
    kind = scaling.pop("kind")
    rope: Leaves = {"theta": theta}
    if kind == "llama3" and not latent:
        rope |= {"scaling": "llama", "scaling_factor": scaling["factor"]}
        rope |= {name: scaling[name] for name in ("low_freq_factor", "high_freq_factor")}
        rope["original_max_position_embeddings"] = scaling["original_max_seq_len"]
    elif kind == "yarn" and latent:
        rope |= {"scaling": "yarn", "rope_factor": scaling["factor"]}
        rope |= {name: scaling[name] for name in ("beta_fast", "beta_slow", "truncate")}
        rope["original_seq_len"] = scaling["original_max_seq_len"]
    return {"rope": rope}


def _rope_scaling(kind: str, at: Leaves) -> Leaves | None:
    if at[f"{ATTENTION}kind"] != "mla":
        return {} if kind in {"none", "llama3"} else None
    if kind == "none":
        return {"mscale": 1.0}
    scaling = _scaling(at)
    same = (
        kind == "yarn" and scaling["mscale"] == scaling["mscale_all_dim"] and not scaling["attention_factor"]
    )
    return {"mscale": scaling["mscale"]} if same and scaling["mscale"] else None


def _router(scores: str, at: Leaves) -> Leaves | None:
    """Scores of all experts, groups by their best two."""
    groups, kept, worth, normalized = (
        at[ROUTER + name] for name in ("n_groups", "top_k_groups", "group_score", "normalized")
    )
    after = scores == "softmax_after"  # of the chosen alone: all of them, divided by the sum of the chosen
    keys: Leaves = {"score_func": scores.removesuffix("_after"), "route_norm": normalized or after}
    if groups > 1:
        keys |= {"num_expert_groups": groups, "num_limited_groups": kept}
    known = scores in {"softmax", "softmax_after", "sigmoid"} and (groups == 1 or worth == "top2")
    return {"router": keys} if known else None


def _rotary(width: int | None, at: Leaves) -> Leaves | None:
    return {} if width in {None, at.get(f"{ATTENTION}head_dim", width)} else None


ROWS: dict[str, Row] = {
    "vocab_size": "vocab_size",
    "d_model": "dim",
    "max_seq_len": lambda size, at: {"context": size} if size else {NOTE: CONTEXT},
    "embedding.tied": "tied",
    "*norm.kind": {"rmsnorm": {}},
    "*norm.eps": "eps",
    "layer.kind": {"pre_norm": {}},
    "layer.attention.kind": {"mha": {}, "gqa": {}, "mqa": {"n_kv_heads": 1}, "mla": {"mla": True}},
    "layer.attention.n_heads": "n_heads",
    "layer.attention.n_kv_heads": "n_kv_heads",
    "layer.attention.head_dim": "head_dim",
    "layer.attention.v_head_dim": value_width("v_head_dim"),
    "layer.attention.q_lora_rank": lambda rank, at: {"q_lora_rank": rank or 0},
    "layer.attention.kv_lora_rank": "kv_lora_rank",
    "layer.attention.qk_nope_head_dim": "qk_nope_head_dim",
    "layer.attention.qk_rope_head_dim": "qk_rope_head_dim",
    "layer.attention.qk_norm": {None: {"qk_norm": False}},
    "layer.attention.qk_norm.per": {"head": {"qk_norm": True}},
    "layer.attention.position.kind": {"rope": {}},
    "layer.attention.position.theta": _rope,
    "layer.attention.position.scaling.kind": _rope_scaling,
    "layer.attention.position.scaling.*": no_key,
    "layer.attention.position.rotary_dim": _rotary,
    "layer.attention.position.pairing": _pairing,
    "layer.ffn.kind": {"glu": {"moe[]": 0}, "moe": {"moe[]": 1}},
    "layer.ffn*.activation.kind": {"silu": {}},
    "layer.ffn.expert.kind": {"glu": {}},
    "layer.ffn.shared.kind": {"glu": {}},
    "layer.ffn.d_ff": "hidden_dim",
    "layer.ffn.expert.d_ff": "expert_dim",
    "layer.ffn.shared.d_ff": "shared_dim",
    "layer.ffn.n_experts": "n_experts",
    "layer.ffn.top_k": "top_k",
    "layer.ffn.router.scores": _router,
    "layer.ffn.router.scale": "route_scale",
    "layer.ffn.router.correction": {True: {"load_balance_coeff": 1e-3}, False: {"load_balance_coeff": None}},
    "layer.ffn.router.n_groups": no_key,
    "layer.ffn.router.top_k_groups": no_key,
    "layer.ffn.router.group_score": no_key,
    "layer.ffn.router.normalized": no_key,
}
LLAMA, QWEN, DEEPSEEK = ("llama3", "Llama3"), ("qwen3", "Qwen3"), ("deepseek_v3", "DeepSeekV3")
"""Folders and beginnings of classes of torchtitan's families."""
GQA = """build.make_gqa_config(
            dim=DIM,
            n_heads={n_heads},
            n_kv_heads={n_kv_heads},
            head_dim={head_dim},
            wqkv_param_init=INIT,
            wo_param_init=INIT,
            inner_attention=build.get_attention_config("flex"),
            rope=ROPE,
            qk_norm={norm},
        )"""
MLA = """make_mla_attention_config(
            layer_id=layer,
            dim=DIM,
            n_heads={n_heads},
            q_lora_rank={q_lora_rank},
            kv_lora_rank={kv_lora_rank},
            qk_nope_head_dim={qk_nope_head_dim},
            qk_rope_head_dim={qk_rope_head_dim},
            v_head_dim={v_head_dim},
            mscale={mscale},
            attn_backend="flex",
            linear_init=INIT,
            norm_init=ONES,
            depth_init=lambda _: INIT,
            rope=ROPE,
        )"""
MIXTURE = """

def mixture():
    router = build.make_router_config(
        dim=DIM, num_experts={n_experts}, top_k={top_k}, gate_param_init=INIT, {router}
    )
    experts = build.make_routed_experts_config(
        dim=DIM,
        hidden_dim={expert_dim},
        num_experts={n_experts},
        top_k={top_k},
        param_init=dict.fromkeys(("w1_EFD", "w2_EDF", "w3_EFD"), INIT["weight"]),
        comm_backend="standard",
    )
    return build.make_moe_config(
        num_experts={n_experts},
        router=router,
        routed_experts=experts,
        shared_experts={shared},
        load_balance_coeff={load_balance_coeff},
    )
"""
MODULE = """from dataclasses import replace
from functools import partial

from torch import nn
from torchtitan.models.common import {rope_class}, Embedding, Linear, RMSNorm
from torchtitan.models.common import config_utils as build
from torchtitan.models.{folder}.config_registry import {folder}_debugmodel
from torchtitan.models.{folder}.model import {cls}Model, {cls}TransformerBlock
{more}
DIM, VOCAB, EPS = {dim}, {vocab_size}, {eps}
INIT = {{"weight": partial(nn.init.trunc_normal_, std=0.02), "bias": nn.init.zeros_}}
ONES = {{"weight": nn.init.ones_}}
ROPE = {rope_class}.Config({rope})


def norm(width):
    return RMSNorm.Config(normalized_shape=width, eps=EPS, param_init=ONES)


def network(width):
    return build.make_ffn_config(dim=DIM, hidden_dim=width, w1_param_init=INIT, w2w3_param_init=INIT)

{mixture}
def block(layer):
    config = {cls}TransformerBlock.Config(
        attention_norm=norm(DIM),
        ffn_norm=norm(DIM),
        attention={attention},
        {networks},
    )
{latent}    return config


def model():
    return {cls}Model.Config(
        dim=DIM,
        vocab_size=VOCAB,
        enable_weight_tying={tied},
        tok_embeddings=Embedding.Config(num_embeddings=VOCAB, embedding_dim=DIM, param_init=INIT),
        norm=norm(DIM),
        lm_head=Linear.Config(in_features=DIM, out_features=VOCAB, param_init=INIT),
        layers=[block(layer) for layer in range({n_layers})],
    )


def run():
    config = {folder}_debugmodel()
    config.model_spec = replace(config.model_spec, flavor={name!r}, model=model())
    config.loss.loss_fn.global_vocab_size = VOCAB
    return config
"""
LATENT_EPS = "    config.attention.q_norm.eps = config.attention.kv_norm.eps = EPS\n"
LATENT_IMPORT = "from torchtitan.models.deepseek_v3 import make_mla_attention_config\n"


def _finish(keys: Leaves) -> Leaves:
    """The family whose blocks have all of it, and the arguments of its builders."""
    mixtures, latent = keys.pop("moe[]"), keys.get("mla", False)
    is_plain = not any(mixtures) and not keys.get("qk_norm")
    folder, cls = DEEPSEEK if latent else LLAMA if is_plain else QWEN
    width = keys["qk_rope_head_dim"] if latent else keys["head_dim"]
    rope = {"dim": width, "max_seq_len": keys["context"], **keys["rope"]}
    dense = f"network({keys.get('hidden_dim')})"
    if any(mixtures):
        chosen = [layer for layer, is_mixture in enumerate(mixtures) if is_mixture]
        last = chosen == list(range(chosen[0], len(mixtures)))
        test = f"layer >= {chosen[0]}" if last else f"layer in {chosen}"
        networks = f"moe=mixture() if {test} else None,\n        "
        networks += f"feed_forward=None if {test} else {dense}"
        networks = "moe=mixture()" if all(mixtures) else networks
        keys["router"] = _arguments({**keys["router"], "route_scale": keys["route_scale"]})
        keys["shared"] = f"network({keys['shared_dim']})" if keys.get("shared_dim") else None
    else:
        networks = f"feed_forward={dense}"
    return {
        **keys,
        "folder": folder,
        "cls": cls,
        "rope": _arguments(rope),
        "networks": networks,
        "norm": f"norm({keys.get('head_dim')})" if keys.get("qk_norm") else None,
        "attention": (MLA if latent else GQA),
        "mixture": MIXTURE.format_map(keys) if any(mixtures) else "",
        "latent": LATENT_EPS if latent else "",
        "more": LATENT_IMPORT if latent else "",
    }


def _arguments(keys: Leaves) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in keys.items())


def _text(name: str, keys: Leaves) -> str:
    attention = keys["attention"].format_map(keys)
    return MODULE.format_map({**keys, "name": name, "attention": attention})


TRAINER = TrainingProgram("torchtitan", {"n_kv_heads": None, "context": 4096}, ROWS, _finish, _text)
