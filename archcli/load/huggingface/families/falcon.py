"""Falcon 1 and 2."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Weights

ALIASES = {"hidden_size": "n_embed"}
FIRST = {"vocab_size": 250880, "n_layer": 2, "n_head": 8, "hidden_size": 64}
FIRST_ALIASES = {
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "num_kv_heads": "n_head_kv",
}


def _falcon(config: Config) -> Mapped:
    """LayerNorm, RoPE or ALiBi, a plain feed-forward network; `bias` biases all matrices.

    Its first files call it RefinedWeb (40B) and RefinedWebModel, by the keys of their configuration_RW.py.

    rw-1b                    7b (parallel_attn)      40b, 180b, 11b (new_decoder_architecture)
    x = x + A(N1 x)          y = N x                 x = x + A(N1 x) + F(N2 x)
    x = x + F(N2 x)          x = x + A y + F y       or one norm for both
    """
    if config.model_type != "falcon":
        config.ignore("match_baseline_rotary")
    config.ignore("rope_parameters")  # of no use beside ALiBi
    config.only("apply_residual_connection_post_layernorm", False, default=False)
    config.ignore("ff_factor")
    bias, width = config.nullable_flag("bias"), config.size("hidden_size")
    d_ff = config.size("ffn_hidden_size", default=width.derive(4 * width.value))
    layer = {
        **_wiring(config),
        "attention": _attention(config) | ({"bias": bias} if bias else {}),
        "ffn": hf.mlp(config, d_ff, "activation", bias=bias),
    }
    return hf.decoder(config, hf.layernorm(config.number("layer_norm_epsilon")), [layer] * config.layers())


def _wiring(config: Config) -> Mapped:
    """How norms and sublayers are wired; refuses the combinations that the class cannot run."""
    new, parallel = config.nullable_flag("new_decoder_architecture"), config.nullable_flag("parallel_attn")
    norms = config.size("num_ln_in_parallel_attn", default=2 if new else 1)
    if new and not parallel:
        what = "new_decoder_architecture with parallel_attn false is not supported"
        raise config.error(what, at=config.place("parallel_attn"))
    if not parallel:
        return {"kind": "pre_norm"}
    if norms.value > (2 if new else 1):
        raise config.error(f"num_ln_in_parallel_attn {norms} is not supported here", at=norms.place)
    return {"kind": "parallel"} | ({"n_norms": 2} if norms.value > 1 else {})


def _attention(config: Config) -> Mapped:
    """Attention; `num_kv_heads` is read in the new architecture only, the old has 1 or all."""
    heads = config.size("num_attention_heads")
    new = config.nullable_flag("new_decoder_architecture")
    kv_heads = heads if new or not config.nullable_flag("multi_query") else heads.derive(1)
    n_kv_heads = config.size("num_kv_heads", default=kv_heads)
    alibi = {"kind": "alibi", "scaled": True} if config.nullable_flag("alibi") else None
    return {
        **hf.head_counts(heads, n_kv_heads if new else kv_heads),
        "position": alibi or hf.rope(config, hf.even_split(config)),
    }


def _falcon_weights(config: Config) -> Weights:
    """Weight names; a fused matrix holds queries, keys and values group by group of query heads."""
    attend = _attention(config)
    groups = {"mqa": 1, "mha": hf.bare(attend["n_heads"])}.get(attend["kind"]) or hf.bare(
        attend["n_kv_heads"]
    )
    return {
        "[transformer.]word_embeddings.weight": "embedding.tokens.weight",
        "[transformer.]h.*.input_layernorm.*": "layers.*.attention_norm.*",
        "[transformer.]h.*.ln_attn.*": "layers.*.attention_norm.*",
        "[transformer.]h.*.ln_mlp.*": "layers.*.ffn_norm.*",
        "[transformer.]h.*.post_attention_layernorm.*": "layers.*.ffn_norm.*",
        "[transformer.]h.*.self_attention.query_key_value.*": Parts(hf.FUSED, groups=groups),
        "[transformer.]h.*.self_attention.dense.*": "layers.*.attention.o_proj.*",
        "[transformer.]h.*.mlp.dense_h_to_4h.*": "layers.*.ffn.up_proj.*",
        "[transformer.]h.*.mlp.dense_4h_to_h.*": "layers.*.ffn.down_proj.*",
        "[transformer.]ln_f.*": "final_norm.*",
        "lm_head.weight": "lm_head.weight",
    }


ABOUT = "Falcon 1 and 2: FalconConfig and FalconForCausalLM. One class, three ways to wire a layer."


def _first(**defaults: Any) -> Family:
    """A model_type of the first files, with these defaults of its class."""
    aliases = {**ALIASES, **FIRST_ALIASES}
    return Family(
        ABOUT, _falcon, _falcon_weights, aliases=aliases, defaults={**FIRST, **defaults}, defaults_of="falcon"
    )


FAMILIES = {
    "falcon": Family(ABOUT, _falcon, _falcon_weights, aliases=ALIASES),
    "RefinedWeb": _first(new_decoder_architecture=True),
    "RefinedWebModel": _first(multi_query=False, parallel_attn=False),
}
