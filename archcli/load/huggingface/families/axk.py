"""A.X K1 and K2: DeepSeek's layers with further norms."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped
from archcli.load.huggingface.whole.deepseek_like import INDEXER, index, only_indexed

AXK1_WEIGHTS = {
    **hf.LLAMA,
    **hf.MLA,
    **hf.EXPERTS,
    **hf.SHARED,
    **hf.CORRECTED,
    **{
        f"[model.]layers.*.{mlp}post_mlp_layernorm.weight": "layers.*.ffn.out_norm.weight"
        for mlp in ("", "mlp.")
    },
}


def _axk1(config: Config) -> Mapped:
    """As DeepSeek-V3, with a norm after each mixture of experts."""
    config.ignore("scoring_func", "topk_method")
    hf.without_prediction(config)
    for key in ("q_lora_rank", "norm_topk_prob", "rope_interleave"):
        if config.stated_null(key):
            raise config.error(f"{key} null is not supported", "leave it out, or state a value")
    attention = hf.latent_attention(config)
    norm, routed = hf.rmsnorm(config), hf.by_types(config, lambda: hf.after_first_in_steps(config))
    # the norm behind the network belongs to the experts: dense layers have none
    networks = hf.some_routed(config, routed, lambda: hf.deepseek_experts(config, out_norm=norm))
    return hf.decoder(config, norm, networks([{"kind": "pre_norm", "attention": attention}] * len(routed)))


AXK2_PLACES = {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm"}
AXK2_PIECES = {
    "norm": "",
    **dict.fromkeys(("mlp.fc1", "W_down"), "_gate_down"),
    **dict.fromkeys(("mlp.fc2", "W_up"), "_gate_up"),
}
AXK2_WEIGHTS = {
    **hf.LLAMA,
    **hf.MLA,
    **INDEXER,
    **hf.EXPERTS,
    **hf.SHARED,
    **hf.CORRECTED,
    **{
        f"[model.]layers.*.self_attn.{name}_proj.weight": "layers.*.attention.q_gate_proj.weight"
        for name in ("q_gate", "q_b")
    },
    **{
        f"[model.]layers.*.{theirs}.{piece}.weight": f"layers.*.{ours}{of_ours}.weight"
        for theirs, ours in AXK2_PLACES.items()
        for piece, of_ours in AXK2_PIECES.items()
    },
}


def _axk2(config: Config) -> Mapped:
    """As DeepSeek-V3.2 with self-gated norms; the norm before a dense network is a plain one.

    The projection of queries makes the output's gate too. Experts are grouped if n_group is stated.
    """
    config.ignore("scoring_func", "topk_method", "rope_interleave", "indexer_rope_interleave")
    hf.without_prediction(config)
    only_indexed(config)
    if config.stated_null("q_lora_rank"):
        raise config.error("q_lora_rank null is not supported", "its queries are made of a latent")
    attention = {
        **hf.latent_attention(config, "interleaved"),
        "query_gate": True,
        "index": index(config, "half"),
    }
    norm = hf.rmsnorm(config)
    layer = {
        "kind": "pre_norm",
        "norm": {**norm, "kind": "self_gated", "rank": config.size("gated_norm_rank")},
        "attention": attention,
    }
    grouped = any(config.get(key, default=None) is not None for key in ("n_group", "topk_group"))
    # functions, as a file without dense layers need not have their keys
    by_routing = {
        True: lambda: {**layer, "ffn": hf.deepseek_experts(config, grouped=grouped)},
        False: lambda: {**layer, "ffn_norm": norm, "ffn": hf.gated(config)},
    }
    routed = hf.by_types(config, lambda: hf.after_first_in_steps(config))
    layers = {is_routed: by_routing[is_routed]() for is_routed in dict.fromkeys(routed)}
    return hf.decoder(config, norm, [layers[is_routed] for is_routed in routed])


FAMILIES = {
    "axk1": Family(
        "A.X K1: AXK1Config and AXK1ForCausalLM.",
        _axk1,
        AXK1_WEIGHTS,
        aliases=hf.EXPERT_WORDS,
    ),
    "axk2": Family(
        "A.X K2, DeepSeek-V3.2 with norms that gate themselves: AXK2Config and AXK2ForCausalLM.",
        _axk2,
        AXK2_WEIGHTS,
        aliases=hf.EXPERT_WORDS,
    ),
}
