"""Tables of weight names that many families share."""

from __future__ import annotations

from archcli.load.huggingface.weights.map import Auxiliary, Parts, Rule, Weights, parts_of


def renamed(table: Weights, rules: Weights) -> Weights:
    """The table with these rules in place of its own for the same modules.

        renamed(LLAMA, {"[model.]layers.*.mlp.gate_up_proj.weight": GATE_UP})

    has no mlp.gate_proj and no mlp.up_proj, which neither this family's class nor its files have.
    """
    new = {module for rule in rules.values() for module in _modules(rule)}
    return {**{name: rule for name, rule in table.items() if new.isdisjoint(_modules(rule))}, **rules}


def _modules(rule: Rule) -> set[str]:
    """archcli's modules of a rule."""
    ours = () if isinstance(rule, Auxiliary) else parts_of(rule).ours
    return {name.rpartition(".")[0] for name in ours}


FUSED = tuple(f"layers.*.attention.{which}_proj.*" for which in "qkv")
"""Queries, keys and values, which some families store as one matrix and one bias."""

GATE_UP = Parts(("layers.*.ffn.gate_proj.weight", "layers.*.ffn.up_proj.weight"))
"""Gate and up, one after the other in one matrix."""

LLAMA: Weights = {
    "[model.]embed_tokens.weight": "embedding.tokens.weight",
    "[model.]layers.*.self_attn.q_proj.*": "layers.*.attention.q_proj.*",
    "[model.]layers.*.self_attn.k_proj.*": "layers.*.attention.k_proj.*",
    "[model.]layers.*.self_attn.v_proj.*": "layers.*.attention.v_proj.*",
    "[model.]layers.*.self_attn.o_proj.*": "layers.*.attention.o_proj.*",
    "[model.]layers.*.input_layernorm.*": "layers.*.attention_norm.*",
    "[model.]layers.*.post_attention_layernorm.*": "layers.*.ffn_norm.*",
    "[model.]layers.*.mlp.gate_proj.*": "layers.*.ffn.gate_proj.*",
    "[model.]layers.*.mlp.up_proj.*": "layers.*.ffn.up_proj.*",
    "[model.]layers.*.mlp.down_proj.*": "layers.*.ffn.down_proj.*",
    "[model.]norm.*": "final_norm.*",
    "lm_head.*": "lm_head.*",
}
"""The names most families share."""

QK_NORM: Weights = {
    "[model.]layers.*.self_attn.q_norm.weight": "layers.*.attention.q_norm.weight",
    "[model.]layers.*.self_attn.k_norm.weight": "layers.*.attention.k_norm.weight",
}

SANDWICH: Weights = {
    **{name: rule for name, rule in LLAMA.items() if ".post_attention_layernorm." not in name},
    "[model.]layers.*.post_attention_layernorm.weight": "layers.*.attention_post_norm.weight",
    "[model.]layers.*.pre_feedforward_layernorm.weight": "layers.*.ffn_norm.weight",
    "[model.]layers.*.post_feedforward_layernorm.weight": "layers.*.ffn_post_norm.weight",
}
"""A norm before and one after each sublayer."""

NORM_AFTER: Weights = {
    **LLAMA,
    **QK_NORM,
    "[model.]layers.*.post_attention_layernorm.*": "layers.*.attention_norm.*",
    "[model.]layers.*.post_feedforward_layernorm.*": "layers.*.ffn_norm.*",
}

EXPERTS: Weights = {
    "[model.]layers.*.mlp.gate.weight": "layers.*.ffn.router.weight",
    **{
        f"[model.]layers.*.mlp.experts.#.{name}_proj.weight": f"layers.*.ffn.experts.{name}_proj.weight"
        for name in ("gate", "up", "down")
    },
    # [E, 2 F, D]: axis 0 counts the experts, and gate and up share axis 1
    "[model.]layers.*.mlp.experts.gate_up_proj": Parts(
        ("layers.*.ffn.experts.gate_proj.weight", "layers.*.ffn.experts.up_proj.weight"), axis=1
    ),
    "[model.]layers.*.mlp.experts.down_proj": "layers.*.ffn.experts.down_proj.weight",
}
"""The router, and the experts: a tensor for each in checkpoints, stacked in the memory of transformers 5."""

MIXTRAL_EXPERTS: Weights = {
    "[model.]layers.*.block_sparse_moe.gate.weight": "layers.*.ffn.router.weight",
    **{
        f"[model.]layers.*.block_sparse_moe.experts.#.{theirs}.weight": f"layers.*.ffn.experts.{ours}.weight"
        for theirs, ours in (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj"))
    },
}
"""Router and experts as checkpoints of Mixtral and its kin name them."""

GRANITE_EXPERTS: Weights = {
    **{
        f"[model.]layers.*.block_sparse_moe.router{layer}.weight": "layers.*.ffn.router.weight"
        for layer in ("", ".layer")
    },
    **{
        f"[model.]layers.*.block_sparse_moe.{name}": EXPERTS["[model.]layers.*.mlp.experts.gate_up_proj"]
        for name in ("experts.gate_up_proj", "input_linear.weight")
    },
    **{
        f"[model.]layers.*.block_sparse_moe.{name}": "layers.*.ffn.experts.down_proj.weight"
        for name in ("experts.down_proj", "output_linear.weight")
    },
    "[model.]layers.*.shared_mlp.input_linear.weight": Parts(
        ("layers.*.ffn.shared.gate_proj.weight", "layers.*.ffn.shared.up_proj.weight")
    ),
    "[model.]layers.*.shared_mlp.output_linear.weight": "layers.*.ffn.shared.down_proj.weight",
}
"""Router, experts and the shared expert as Granite names them."""

SHARED: Weights = {
    f"[model.]layers.*.mlp.shared_expert{plural}.{name}_proj.*": f"layers.*.ffn.shared.{name}_proj.*"
    for plural in ("", "s")
    for name in ("gate", "up", "down")
}
"""The shared expert; DeepSeek stores several shared experts as one wide network."""

CORRECTED: Weights = {
    "[model.]layers.*.mlp.gate.e_score_correction_bias": "layers.*.ffn.route.correction_bias"
}
"""What is added to the scores by which experts are chosen: stored, not trained by gradients."""

MLA: Weights = {
    "[model.]layers.*.self_attn.q_a_proj.*": "layers.*.attention.q_a_proj.*",
    "[model.]layers.*.self_attn.q_a_layernorm.weight": "layers.*.attention.q_a_norm.weight",
    "[model.]layers.*.self_attn.q_b_proj.weight": "layers.*.attention.q_b_proj.weight",
    "[model.]layers.*.self_attn.kv_a_proj_with_mqa.*": "layers.*.attention.kv_a_proj.*",
    "[model.]layers.*.self_attn.kv_a_layernorm.weight": "layers.*.attention.kv_a_norm.weight",
    "[model.]layers.*.self_attn.kv_b_proj.weight": "layers.*.attention.kv_b_proj.weight",
}
"""Multi-head latent attention."""

GPT2: Weights = {
    "[transformer.]wte.weight": "embedding.tokens.weight",
    "[transformer.]wpe.weight": "embedding.positions.weight",
    "[transformer.]h.*.ln_1.*": "layers.*.attention_norm.*",
    "[transformer.]h.*.attn.c_attn.*": Parts(FUSED, transposed=True),
    "[transformer.]h.*.attn.c_proj.*": Parts(("layers.*.attention.o_proj.*",), transposed=True),
    "[transformer.]h.*.ln_2.*": "layers.*.ffn_norm.*",
    "[transformer.]h.*.mlp.c_fc.*": Parts(("layers.*.ffn.up_proj.*",), transposed=True),
    "[transformer.]h.*.mlp.c_proj.*": Parts(("layers.*.ffn.down_proj.*",), transposed=True),
    "[transformer.]ln_f.*": "final_norm.*",
    "lm_head.*": "lm_head.*",
}
"""GPT-2's Conv1D holds its matrices [in, out]."""

SUBLAYERS = {"self_attn": "attention", "encoder_attn": "cross_attention"}
PROJECTIONS = {"q_proj": "q_proj", "k_proj": "k_proj", "v_proj": "v_proj", "out_proj": "o_proj"}


def fairseq_layers(theirs: str, ours: str = "layers.*") -> dict[str, Rule]:
    """Weight names of layers in fairseq's words, as BART, OPT and XGLM have them, under these prefixes."""
    names: dict[str, Rule] = {
        f"{theirs}.fc1.*": f"{ours}.ffn.up_proj.*",
        f"{theirs}.fc2.*": f"{ours}.ffn.down_proj.*",
        f"{theirs}.final_layer_norm.*": f"{ours}.ffn_norm.*",
    }
    for part, attention in SUBLAYERS.items():
        names[f"{theirs}.{part}_layer_norm.*"] = f"{ours}.{attention}_norm.*"
        for stored, projection in PROJECTIONS.items():
            names[f"{theirs}.{part}.{stored}.*"] = f"{ours}.{attention}.{projection}.*"
    return names


UNREAD = "read by no pass: the class holds it and does not use it"


def idle(ours: str) -> Parts:
    """The rule of a linear layer's parameters that no pass reads."""
    return Parts((ours,), linear=True)


PREDICTION = "multi-token prediction: a layer after the last, which no class of transformers holds"


def prediction_layers(first: int, count: int) -> dict[str, Rule]:
    """Weight names of the multi-token prediction layers, numbered after the last layer."""
    return {f"[model.]layers.{first + i}.**": Auxiliary(PREDICTION) for i in range(count)}


POST_NORM = {
    "embeddings": "embedding.norm",
    "encoder.layer.*.attention.output": "layers.*.attention_norm",
    "encoder.layer.*.output": "layers.*.ffn_norm",
}
"""The places of norms, which are called LayerNorm there, and ours."""

LEGACY = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
"""The first files keep TensorFlow's words for a norm's gain and bias."""

MODULES = {
    "encoder.layer.*.attention.self.query": "layers.*.attention.q_proj",
    "encoder.layer.*.attention.self.key": "layers.*.attention.k_proj",
    "encoder.layer.*.attention.self.value": "layers.*.attention.v_proj",
    "encoder.layer.*.attention.output.dense": "layers.*.attention.o_proj",
    "encoder.layer.*.intermediate.dense": "layers.*.ffn.up_proj",
    "encoder.layer.*.output.dense": "layers.*.ffn.down_proj",
    "pooler.dense": "pooler",
}
TABLES = {
    "word_embeddings": "tokens",
    "position_embeddings": "positions",
    "token_type_embeddings": "token_types",
}


LLAMA_LAYERS = {
    **{f"self_attn.{which}_proj": f"attention.{which}_proj" for which in "qkvo"},
    "post_attention_layernorm": "attention_norm",
    "post_mlp_layernorm": "ffn_norm",
    **{f"mlp.{name}_proj": f"ffn.{name}_proj" for name in ("gate", "up", "down")},
    "mlp.fc1": "ffn.up_proj",
    "mlp.fc2": "ffn.down_proj",
}
"""Post-norm layers with Llama's words."""


def encoder_names(prefix: str, *, post_norm: bool = True) -> dict[str, Rule]:
    """Weight names of the encoder; `prefix` stands before them in classes that have a head."""
    places = POST_NORM if post_norm else {"embeddings": POST_NORM["embeddings"]}
    return {
        **{
            f"[{prefix}.]embeddings.{name}.weight": f"embedding.{ours}.weight"
            for name, ours in TABLES.items()
        },
        **{f"[{prefix}.]{name}.*": f"{ours}.*" for name, ours in MODULES.items()},
        **norm_names({f"[{prefix}.]{place}": ours for place, ours in places.items()}),
    }


def norm_names(places: dict[str, str]) -> dict[str, Rule]:
    """Weight names of norms called LayerNorm at these places."""
    return {
        f"{theirs}.LayerNorm.{stored}": f"{ours}.{kind}"
        for theirs, ours in places.items()
        for stored, kind in LEGACY.items()
    }


def rotated_names(prefix: str, attention: str) -> dict[str, Rule]:
    """Weight names of post-norm layers with Llama's words, and as the first files have them."""
    stored = {
        **LLAMA_LAYERS,
        f"{attention}.out_proj": "attention.o_proj",
        "norm1": "attention_norm",
        "norm2": "ffn_norm",
        "mlp.fc11": "ffn.up_proj",
        "mlp.fc12": "ffn.gate_proj",
    }
    base = f"[{prefix}.]"
    return {
        f"{base}embeddings.word_embeddings.weight": "embedding.tokens.weight",
        f"{base}embeddings.token_type_embeddings.weight": "embedding.token_types.weight",
        f"{base}embeddings.LayerNorm.*": "embedding.norm.*",
        f"{base}emb_ln.*": "embedding.norm.*",
        **{f"{base}[encoder.]layers.*.{name}.*": f"layers.*.{ours}.*" for name, ours in stored.items()},
        f"{base}[encoder.]layers.*.{attention}.Wqkv.*": Parts(FUSED),
        f"{base}pooler.dense.*": "pooler.*",
    }


def pre_norm_names(prefix: str, attention: str, ffn: str, last: str) -> dict[str, Rule]:
    """Weight names of the norms before attention and network, and of the last."""
    return {
        f"[{prefix}.]encoder.layer.*.{attention}.*": "layers.*.attention_norm.*",
        f"[{prefix}.]encoder.layer.*.{ffn}.*": "layers.*.ffn_norm.*",
        f"[{prefix}.]{last}.*": "final_norm.*",
    }


BERT_HEAD: Weights = {
    "cls.predictions.transform.dense.*": "lm_head_transform.*",
    **norm_names({"cls.predictions.transform": "lm_head_norm"}),
    "cls.predictions.decoder.bias": Parts(("lm_head.bias",), again=True),
    "cls.seq_relationship.*": "classifier.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}

ROBERTA_HEAD: Weights = {
    "lm_head.dense.*": "lm_head_transform.*",
    "lm_head.layer_norm.*": "lm_head_norm.*",
    "lm_head.decoder.bias": Parts(("lm_head.bias",), again=True),
    "classifier.dense.*": "pooler.*",
    "classifier.out_proj.*": "classifier.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}


def tied_names(table: str, bias: str, tied: bool) -> dict[str, Rule]:
    """The rules of the head's table and of the bias beside the decoder's own.

    Tied they are stored under either name; an untied head has a second bias, which no pass reads.
    """
    if not tied:
        return {table: "lm_head.weight", bias: "unread_bias.weight"}
    return {
        table: Parts(("embedding.tokens.weight",), again=True),
        bias: Parts(("lm_head.bias",), again=True),
    }
