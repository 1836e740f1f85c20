"""RoBERTa with further parts: X-MOD, Longformer, LUKE, ESM."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, Family, Mapped, Parts, Rule, Weights, groups, idle
from archcli.load.huggingface.whole.bert_like import (
    LABELLED,
    MASKED,
    after_padding,
    bert_like,
    roberta_like,
    with_own_pooler,
    with_roberta_head,
    with_second_bias,
)


def _xmod(config: Config) -> Mapped:
    """As RoBERTa, with an adapter behind each network for every language, of which a pass runs one."""
    for key in ("pre_norm", "adapter_layer_norm", "adapter_reuse_layer_norm", "ln_before_adapter"):
        config.only(key, config.defaults[key])
    whole = roberta_like(config, "Xmod")
    adapted = _xmod_adapters(config)
    groups = [{**group, "layer": {**group["layer"], **adapted}} for group in whole["groups"]]
    return with_second_bias(config, {**whole, "groups": groups})


def _xmod_adapters(config: Config) -> Mapped:
    """The fields of a layer: the adapter that runs, and the shapes of those that do not."""
    hidden, factor = config.size("hidden_size"), config.size("adapter_reduction_factor")
    width = hidden.derive(hidden.value // factor.value)
    if width == 0:
        what = f"adapter_reduction_factor {factor} leaves nothing of hidden_size {hidden}"
        raise config.error(what, at=factor.place)
    languages, runs = _xmod_languages(config)
    shapes = {"up": [width.value, hidden.value], "up_bias": [width.value]}
    shapes |= {"down": [hidden.value, width.value], "down_bias": [hidden.value]}
    idle = [index for index, language in enumerate(languages) if language != runs]
    unread = {f"adapter_{index}_{name}": shape for index in idle for name, shape in shapes.items()}
    if unread:
        config.note(f"adapters of {len(languages)} languages are parameters; a pass runs that of {runs}")
    return {"adapter": hf.mlp(config, width, "hidden_act"), **({"unread": unread} if unread else {})}


def _xmod_languages(config: Config) -> tuple[list[str], str]:
    """The languages, each once, and the one whose adapter runs: the default, else the first."""
    entry = config.value("languages")
    languages = entry.value
    if not isinstance(languages, list) or not languages or not all(map(_is_name, languages)):
        what = f"languages must be a list of names, not {hf.short_repr(languages)}"
        raise config.error(what, at=entry.place)
    chosen = config.get("default_language", default=languages[0])
    if chosen not in languages:
        what = f"default_language {hf.short_repr(chosen)} is none of the languages"
        raise config.error(what, at=config.place("default_language"))
    return [*dict.fromkeys(languages)], chosen


def _is_name(language: object) -> bool:
    return isinstance(language, str) and language != "" and "." not in language


def _xmod_weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, and those of each language's adapter."""
    languages, runs = _xmod_languages(config)
    adapters: dict[str, Rule] = {}
    for index, language in enumerate(languages):
        place = f"[roberta.]encoder.layer.*.output.adapter_modules.{language}"
        for theirs, ours in (("dense1", "up"), ("dense2", "down")):
            unread = f"layers.*.adapter_{index}_{ours}"
            running = f"layers.*.adapter.{ours}_proj"
            for kind, end in (("weight", ""), ("bias", "_bias")):
                runs_here = language == runs
                rule = f"{running}.{kind}" if runs_here else idle(f"{unread}{end}.weight")
                adapters[f"{place}.{theirs}.{kind}"] = rule
    tied = hf.tied_names("lm_head.decoder.weight", "lm_head.bias", bool(config.flag("tie_word_embeddings")))
    return {**with_own_pooler(config, {**hf.encoder_names("roberta"), **hf.ROBERTA_HEAD}), **adapters, **tied}


def _longformer(config: Config) -> Mapped:
    """As RoBERTa, with attention within a window; no token is global, as in a pass that names none."""
    config.ignore(
        "onnx_export", "attention_mode", "attention_dilation", "autoregressive", "ignore_attention_mask"
    )
    whole = roberta_like(config, "Longformer", MASKED, attention={"global_projections": True})
    [group] = whole["groups"]
    whole["groups"] = groups(hf.seen_near(group["layer"], hf.two_sided_windows(config)))
    return with_second_bias(config, whole)


def _longformer_weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, and the projections of global tokens."""
    place = "[longformer.]encoder.layer.*.attention.self"
    return with_roberta_head(
        config,
        {
            **hf.encoder_names("longformer"),
            **{
                f"{place}.{name}_global.*": f"layers.*.attention.{name[0]}_global_proj.*"
                for name in ("query", "key", "value")
            },
        },
    )


LUKE_HEADS = {"Model": ("pooler",), "ForMaskedLM": ("pooler", "words"), **LABELLED}

QUERIES = ("w2e_query", "e2w_query", "e2e_query")
EMBEDDINGS = {
    "entity_tokens": "entity_embeddings.entity_embeddings.weight",
    "entity_dense": "entity_embeddings.entity_embedding_dense.weight",
    "entity_positions": "entity_embeddings.position_embeddings.weight",
    "entity_types": "entity_embeddings.token_type_embeddings.weight",
    "entity_norm": "entity_embeddings.LayerNorm.weight",
    "entity_norm_bias": "entity_embeddings.LayerNorm.bias",
}
PREDICTIONS = {
    "entity_transform": "transform.dense.weight",
    "entity_transform_bias": "transform.dense.bias",
    "entity_head_norm": "transform.LayerNorm.weight",
    "entity_head_norm_bias": "transform.LayerNorm.bias",
    "entity_head_bias": "bias",
    "entity_head": "decoder.weight",
}
"""Weights for entities, in the embeddings and in the head: archcli's names, and those of the class."""


def _luke(config: Config) -> Mapped:
    """As RoBERTa with a head that is never tied; a pass over words does not read weights for entities."""
    config.only("position_embedding_type", "absolute", default="absolute")
    config.ignore("bert_model_name", "cls_entity_prediction")
    config.note("what is there for entities is counted as parameters, and read by no pass over words alone")
    position, width = after_padding(config), config.size("hidden_size").value
    unread = {name: [width, width] for name in QUERIES} | {f"{name}_bias": [width] for name in QUERIES}
    has_queries = config.flag("use_entity_aware_attention")
    whole = bert_like(
        config,
        "Luke",
        LUKE_HEADS,
        embedding={"position": position, "tied": False},
        head={"activation": "gelu"},
        layer={"unread": unread} if has_queries else {},
        max_seq_len=position["max_seq_len"],
        unread=_entities(config),
    )
    return with_second_bias(config, whole)


def _entities(config: Config) -> Mapped:
    """The shapes of the weights for entities outside of layers."""
    size, d_model = config.size("entity_emb_size").value, config.size("hidden_size").value
    n, types = config.size("entity_vocab_size").value, config.count("type_vocab_size").value
    positions = config.size("max_position_embeddings").value
    shapes = {
        "entity_tokens": [n, size],
        "entity_dense": [d_model, size] if size != d_model else None,
        "entity_positions": [positions, d_model],
        "entity_types": [types, d_model] if types else None,
        "entity_norm": [d_model],
        "entity_norm_bias": [d_model],
    }
    tied = config.flag("tie_word_embeddings")
    if config.architecture.endswith("ForMaskedLM"):
        head = ([size, d_model], [size], [size], [size], [n], None if tied else [n, size])
        shapes |= dict(zip(PREDICTIONS, head, strict=True))
    return {name: shape for name, shape in shapes.items() if shape is not None}


def _luke_weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, and those for entities."""
    tied = bool(config.flag("tie_word_embeddings"))
    table, again = "entity_predictions.decoder.weight", Parts(("entity_tokens.weight",), again=True)
    names: dict[str, Rule] = {f"[luke.]{theirs}": f"{ours}.weight" for ours, theirs in EMBEDDINGS.items()}
    names["[luke.]entity_embeddings.entity_embedding_dense.weight"] = idle("entity_dense.weight")
    names |= {f"entity_predictions.{theirs}": idle(f"{ours}.weight") for ours, theirs in PREDICTIONS.items()}
    for name in QUERIES:
        place = f"[luke.]encoder.layer.*.attention.self.{name}"
        names |= {
            f"{place}.weight": idle(f"layers.*.{name}.weight"),
            f"{place}.bias": f"layers.*.{name}_bias.weight",
        }
    head = hf.tied_names("lm_head.decoder.weight", "lm_head.bias", tied)
    head["lm_head.decoder.weight"] = "lm_head.weight"
    of_words = {
        name: rule for name, rule in hf.ROBERTA_HEAD.items() if not name.startswith("classifier.dense")
    }
    return {**hf.encoder_names("luke"), **of_words, **names, **head, **({table: again} if tied else {})}


ESM_HEADS = {
    "Model": ("pooler",),
    "ForMaskedLM": ("words",),
    "ForSequenceClassification": LABELLED["ForSequenceClassification"],
    "ForTokenClassification": LABELLED["ForTokenClassification"],
}
TRAINED_VISIBLE = 1 - 0.15 * 0.8
"""The share of tokens that ESM saw in training, by which token_dropout scales a pass without masks."""


def _esm(config: Config) -> Mapped:
    """As RoBERTa with norms before the sublayers and after the last, with learned positions or RoPE.

    A predictor of contacts, which reads attention's probabilities, is held and not run.
    """
    config.only("is_folding_model", False)
    config.only("position_embedding_type", "absolute", "rotary")
    config.ignore(
        "hidden_act", "mask_token_id", "vocab_list", "esmfold_config", "head_dim", "classifier_dropout"
    )
    turns = config.get("position_embedding_type") == "rotary"
    norm = {} if config.nullable_flag("emb_layer_norm_before", default=False) else {"norm": None}
    scale = {"scale": TRAINED_VISIBLE} if config.nullable_flag("token_dropout") else {}
    embedding = {"position": {"kind": "none"} if turns else after_padding(config), "token_types": 0, **norm}
    whole = bert_like(
        config,
        "Esm",
        ESM_HEADS,
        block="pre_norm",
        ffn={"kind": "mlp", "d_ff": config.size("intermediate_size"), "activation": "gelu", "bias": True},
        attention={"position": hf.rope(config, hf.even_split(config))} if turns else {},
        embedding={**embedding, **scale},
        head={"activation": "gelu"},
    )
    return {**whole, "unread": {"contacts": [1, _esm_maps(config)], "contacts_bias": 1}}


def _esm_maps(config: Config) -> int:
    """How many maps of attention there are: one for each head of each layer."""
    return config.layers() * config.size("num_attention_heads").value


def _esm_weights(config: Config) -> Weights:
    """Weight names: RoBERTa's with the norm first, and the predictor of contacts."""
    tied = bool(config.flag("tie_word_embeddings"))
    table = Parts(("embedding.tokens.weight",), again=True)
    frequencies = Auxiliary("frequencies of RoPE: computed, not trained")
    return {
        **with_own_pooler(config, {**hf.encoder_names("esm", post_norm=False), **hf.ROBERTA_HEAD}),
        **hf.norm_names(
            {
                "[esm.]encoder.layer.*.attention": "layers.*.attention_norm",
                "[esm.]encoder.layer.*": "layers.*.ffn_norm",
            }
        ),
        "[esm.]encoder.emb_layer_norm_after.*": "final_norm.*",
        "[esm.]embeddings.layer_norm.*": "embedding.norm.*",
        "[esm.]rotary_embeddings.inv_freq": frequencies,
        "[esm.]encoder.layer.*.attention.self.rotary_embeddings.inv_freq": frequencies,
        "[esm.]contact_head.regression.weight": idle("contacts.weight"),
        "[esm.]contact_head.regression.bias": "contacts_bias.weight",
        "lm_head.decoder.weight": table if tied else "lm_head.weight",
        "lm_head.bias": "lm_head.bias",
    }


FAMILIES = {
    "xmod": Family(
        "X-MOD, RoBERTa with an adapter for each language: XmodConfig, XmodForMaskedLM and the other heads.",
        _xmod,
        _xmod_weights,
    ),
    "longformer": Family(
        "Longformer: LongformerConfig, LongformerModel and its heads.", _longformer, _longformer_weights
    ),
    "luke": Family(
        "LUKE on words alone: LukeConfig, LukeModel and its heads; the parts for entities are unread.",
        _luke,
        _luke_weights,
    ),
    "esm": Family(
        "ESM-1b and ESM-2, encoders of proteins: EsmConfig, EsmModel and its heads.",
        _esm,
        _esm_weights,
        # the class has none; every file of ESM states these
        defaults={"vocab_size": 33, "pad_token_id": 1},
    ),
}
