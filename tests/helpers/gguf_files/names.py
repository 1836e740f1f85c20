"""What llama.cpp calls the weights of transformers classes.

`gguf-py/gguf/tensor_mapping.py` of github.com/ggml-org/llama.cpp.
"""

import re

LLAMA = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers.N.input_layernorm": "blk.N.attn_norm",
    "model.layers.N.post_attention_layernorm": "blk.N.ffn_norm",
    **{f"model.layers.N.self_attn.{part}_proj": f"blk.N.attn_{part}" for part in "qkv"},
    "model.layers.N.self_attn.o_proj": "blk.N.attn_output",
    **{f"model.layers.N.self_attn.{part}_norm": f"blk.N.attn_{part}_norm" for part in "qk"},
    **{f"model.layers.N.mlp.{part}_proj": f"blk.N.ffn_{part}" for part in ("gate", "up", "down")},
}
EXPERTS = {
    "model.layers.N.mlp.gate": "blk.N.ffn_gate_inp",
    "model.layers.N.mlp.experts.gate_up_proj": ("blk.N.ffn_gate_exps.weight", "blk.N.ffn_up_exps.weight"),
    "model.layers.N.mlp.experts.down_proj": "blk.N.ffn_down_exps.weight",
    "model.layers.N.mlp.gate.e_score_correction_bias": "blk.N.exp_probs_b.bias",
    **{
        f"model.layers.N.mlp.{shared}.{part}_proj": f"blk.N.ffn_{part}_shexp"
        for part in ("gate", "up", "down")
        for shared in ("shared_expert", "shared_experts")
    },
    "model.layers.N.mlp.shared_expert_gate": "blk.N.ffn_gate_inp_shexp",
}
SANDWICH = {
    "model.layers.N.post_attention_layernorm": "blk.N.post_attention_norm",
    "model.layers.N.pre_feedforward_layernorm": "blk.N.ffn_norm",
    "model.layers.N.post_feedforward_layernorm": "blk.N.post_ffw_norm",
}
MLA = {
    "model.layers.N.self_attn.q_a_proj": "blk.N.attn_q_a",
    "model.layers.N.self_attn.q_a_layernorm": "blk.N.attn_q_a_norm",
    "model.layers.N.self_attn.q_b_proj": "blk.N.attn_q_b",
    "model.layers.N.self_attn.kv_a_proj_with_mqa": "blk.N.attn_kv_a_mqa",
    "model.layers.N.self_attn.kv_a_layernorm": "blk.N.attn_kv_a_norm",
    "model.layers.N.self_attn.kv_b_proj": "blk.N.attn_kv_b",
}
INDEXER = {
    "model.layers.N.self_attn.indexer.wq_b": "blk.N.indexer.attn_q_b",
    "model.layers.N.self_attn.indexer.wk": "blk.N.indexer.attn_k",
    "model.layers.N.self_attn.indexer.k_norm": "blk.N.indexer.k_norm",
    "model.layers.N.self_attn.indexer.weights_proj": "blk.N.indexer.proj",
}


def blocks(stem, **names):
    """Names of a layer's modules, where the layers are called otherwise."""
    return {f"{stem}.N.{theirs.replace('__', '.')}": f"blk.N.{ours}" for ours, theirs in names.items()}


GPT2 = {
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
    "lm_head": "output",
}
GPT2 |= blocks(
    "transformer.h",
    attn_norm="ln_1",
    ffn_norm="ln_2",
    attn_qkv="attn__c_attn",
    attn_output="attn__c_proj",
    ffn_up="mlp__c_fc",
    ffn_down="mlp__c_proj",
)
NEOX = {
    "gpt_neox.embed_in": "token_embd",
    "gpt_neox.final_layer_norm": "output_norm",
    "embed_out": "output",
    "lm_head": "output",
}
NEOX |= blocks(
    "gpt_neox.layers",
    attn_norm="input_layernorm",
    ffn_norm="post_attention_layernorm",
    attn_qkv="attention__query_key_value",
    attn_output="attention__dense",
    ffn_up="mlp__dense_h_to_4h",
    ffn_down="mlp__dense_4h_to_h",
)
FALCON = {
    "transformer.word_embeddings": "token_embd",
    "transformer.ln_f": "output_norm",
    "lm_head": "output",
    "transformer.word_embeddings_layernorm": "token_embd_norm",
}
FALCON |= blocks(
    "transformer.h",
    attn_norm="input_layernorm",
    ffn_norm="post_attention_layernorm",
    attn_qkv="self_attention__query_key_value",
    attn_output="self_attention__dense",
    ffn_up="mlp__dense_h_to_4h",
    ffn_down="mlp__dense_4h_to_h",
)
TWO_NORMS = {
    **FALCON,
    "transformer.h.N.ln_mlp": "blk.N.attn_norm",
    "transformer.h.N.ln_attn": "blk.N.attn_norm_2",
}
MPT = {"transformer.wte": "token_embd", "transformer.norm_f": "output_norm", "lm_head": "output"}
MPT |= blocks(
    "transformer.blocks",
    attn_norm="norm_1",
    ffn_norm="norm_2",
    attn_qkv="attn__Wqkv",
    attn_output="attn__out_proj",
    ffn_up="ffn__up_proj",
    ffn_down="ffn__down_proj",
)
PHI = {
    **LLAMA,
    "model.final_layernorm": "output_norm",
    **blocks("model.layers", attn_output="self_attn__dense", ffn_up="mlp__fc1", ffn_down="mlp__fc2"),
}
STARCODER = {**LLAMA, **blocks("model.layers", ffn_up="mlp__c_fc", ffn_down="mlp__c_proj")}
BERT = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "pooler.dense": None,
}
BERT |= blocks(
    "encoder.layer",
    attn_q="attention__self__query",
    attn_k="attention__self__key",
    attn_v="attention__self__value",
    attn_output="attention__output__dense",
    attn_output_norm="attention__output__LayerNorm",
    ffn_up="intermediate__dense",
    ffn_down="output__dense",
    layer_output_norm="output__LayerNorm",
)
T5 = {"shared": "token_embd", "encoder.embed_tokens": None, "decoder.embed_tokens": None, "lm_head": "output"}
for half, stem in (("enc", "encoder"), ("dec", "decoder")):
    T5[f"{stem}.final_layer_norm"] = f"{half}.output_norm"
    T5[f"{stem}.block.N.layer.0.layer_norm"] = f"{half}.blk.N.attn_norm"
    T5[f"{stem}.block.N.layer.0.SelfAttention.relative_attention_bias"] = f"{half}.blk.N.attn_rel_b"
    last = 1 if half == "enc" else 2
    for part in "qkvo":
        T5[f"{stem}.block.N.layer.0.SelfAttention.{part}"] = f"{half}.blk.N.attn_{part}"
        T5[f"decoder.block.N.layer.1.EncDecAttention.{part}"] = f"dec.blk.N.cross_attn_{part}"
    T5["decoder.block.N.layer.1.layer_norm"] = "dec.blk.N.cross_attn_norm"
    T5[f"{stem}.block.N.layer.{last}.layer_norm"] = f"{half}.blk.N.ffn_norm"
    T5 |= {
        f"{stem}.block.N.layer.{last}.DenseReluDense.{theirs}": f"{half}.blk.N.ffn_{ours}"
        for theirs, ours in (("wi", "up"), ("wi_0", "gate"), ("wi_1", "up"), ("wo", "down"))
    }


WIDTHS = (20, 44, 52)
"""Of a feed-forward network, in these tests."""


def renamed(name, shape, names):
    """(name, shape) of the tensors of the file that a weight of the class becomes."""
    match = re.search(r"\.(\d+)\.", name)
    wholes = {stem.replace(".N.", f".{match[1]}.") if match else stem: ours for stem, ours in names.items()}
    whole = name if name in wholes else name.rpartition(".")[0]
    ours = wholes[whole]
    layer = match[1] if match else ""
    if ours is None:
        return []
    if isinstance(ours, tuple):
        return [(part.replace("N", layer), _half(name, shape)) for part in ours]
    return [(ours.replace("N", layer) + ("" if name == whole else f".{name.rpartition('.')[2]}"), shape)]


def _half(name, shape):
    """Gate and up lie one after the other along the axis that is twice as long as d_ff."""
    axis = max(range(1, len(shape)), key=lambda i: shape[i] % 2 == 0 and shape[i] // 2 in WIDTHS)
    return tuple(length // 2 if i == axis else length for i, length in enumerate(shape))
