"""MobileBERT: thin layers behind bottlenecks, arXiv:2004.02984."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.bert_like import BERT_HEADS, bert_like, with_bert_head, with_second_bias

HEADS = {name: parts for name, parts in BERT_HEADS.items() if name != "ForCausalLM"}
TORCH_EPS = 1e-5
"""What two of the norms take where they are LayerNorms, whatever layer_norm_eps says."""


def _mobilebert(config: Config) -> Mapped:
    """As BERT in layers that a matrix narrows, with several networks; three tokens make an embedding."""
    width = _narrow(config)
    whole = bert_like(
        config,
        "MobileBert",
        HEADS,
        block="bottleneck",
        norm=_norm(config, config.number("layer_norm_eps")),
        layer=_layer(config, width),
        attention=_attention(config, width),
        embedding=_embedding(config),
        head=_head(config),
    )
    if whole.get("pooler") and not config.flag("classifier_activation"):
        whole["pooler_dense"] = False
    if not _reads_transformation(config):
        wide = config.size("hidden_size")
        unread = {"embedding_transformation": [wide, wide], "embedding_transformation_bias": wide}
        whole["unread"] = {**whole.get("unread", {}), **unread}
    return with_second_bias(config, whole)


def _narrow(config: Config) -> ConfigValue[int] | None:
    """The width of the layers behind their bottlenecks; None without them."""
    width = config.size("intra_bottleneck_size") if config.flag("use_bottleneck") else None
    inner = config.size("hidden_size") if width is None else width
    # the class saves it, and cannot run with another
    config.only("true_hidden_size", inner.value, default=inner.value)
    heads = config.size("num_attention_heads")
    if inner.value % heads.value:
        what = f"num_attention_heads {heads} does not divide the width of the layers, {inner}"
        raise config.error(what, "the class cannot run", heads.place)
    return width


def _norm(config: Config, eps: float | ConfigValue[float]) -> Mapped:
    """A norm of the layers, by normalization_type."""
    kind = config.value("normalization_type")
    if kind.value not in ("no_norm", "layer_norm"):
        what = f"normalization_type {hf.short_repr(kind.value)} is not supported"
        raise config.error(what, "known: no_norm, layer_norm", kind.place)
    return {"kind": "affine"} if kind.value == "no_norm" else hf.layernorm(eps)


def _layer(config: Config, width: ConfigValue[int] | None) -> Mapped:
    """The fields of a layer besides its attention and its last network."""
    ffn, number = hf.mlp(config, config.size("intermediate_size"), "hidden_act"), _networks(config)
    fields: Mapped = {"width": width} if width is not None else {}
    fields |= {"networks": [ffn] * (number - 1)} if number > 1 else {}
    # the class gives this norm no eps
    last = _norm(config, TORCH_EPS)
    fields |= {"ffn_norm": last} if last["kind"] == "layernorm" else {}
    if width is None or not config.flag("use_bottleneck_attention"):
        return fields
    fields["reads"] = "bottleneck"
    return {**fields, "unread": _unread(config, width)} if _shares(config) else fields


def _networks(config: Config) -> int:
    return config.size("num_feedforward_networks").value


def _shares(config: Config) -> bool:
    """Whether queries and keys share a bottleneck of their own."""
    return bool(config.flag("key_query_shared_bottleneck"))


def _unread(config: Config, width: ConfigValue[int]) -> Mapped:
    """The bottleneck of queries and keys of a layer whose attention reads the other one."""
    config.note("the class holds bottlenecks of queries and keys that no pass reads")
    matrix = {"qk_bottleneck": [width, config.size("hidden_size")], "qk_bottleneck_bias": width}
    return {**matrix, "qk_bottleneck_norm": width, "qk_bottleneck_norm_bias": width}


def _attention(config: Config, width: ConfigValue[int] | None) -> Mapped:
    """The fields of attention, by what its queries, keys and values are made of."""
    if width is None:
        return {}
    heads = {"head_dim": width.derive(width.value // config.size("num_attention_heads").value)}
    if config.flag("use_bottleneck_attention"):
        return heads
    if _shares(config):
        return {"kind": "bottleneck", **heads, "qk_width": width}
    if width.value != config.size("hidden_size").value:
        what = "queries of a layer with a bottleneck that neither shares nor reads it cannot be computed"
        hint = "key_query_shared_bottleneck or use_bottleneck_attention is true in a class that runs"
        raise config.error(what, hint, config.place("key_query_shared_bottleneck"))
    return heads


def _reads_transformation(config: Config) -> bool:
    """Whether a matrix leads from the table's vectors to the stream."""
    return bool(config.flag("trigram_input")) or config.size("embedding_size") != config.size("hidden_size")


def _embedding(config: Config) -> Mapped:
    """The token table, the neighbours that a token's vector reads, and a norm with the class's eps."""
    norm = {"norm": _norm(config, TORCH_EPS)}
    if not _reads_transformation(config):
        return norm
    joined = config.flag("trigram_input")
    return {**norm, "width": config.size("embedding_size"), "neighbours": joined.derive(int(joined.value))}


def _head(config: Config) -> Mapped:
    """A head with LayerNorm; its matrix is the token table beside a second one for the other dims."""
    width, wide = config.size("embedding_size"), config.size("hidden_size")
    joined = {} if width == wide else {"table_width": width}
    return {"norm": hf.layernorm(config.number("layer_norm_eps")), **joined}


NORMS = {
    "embeddings": "embedding.norm",
    "encoder.layer.*.attention.output": "layers.*.attention_norm",
    "encoder.layer.*.output": "layers.*.ffn_norm",
    "encoder.layer.*.output.bottleneck": "layers.*.bottleneck_out_norm",
    "encoder.layer.*.bottleneck.input": "layers.*.bottleneck_in_norm",
    "encoder.layer.*.ffn.*.output": "layers.*.networks_*_norm",
}
MATRICES = {
    **hf.MODULES,
    "encoder.layer.*.bottleneck.input.dense": "layers.*.bottleneck_in",
    "encoder.layer.*.output.bottleneck.dense": "layers.*.bottleneck_out",
    "encoder.layer.*.ffn.*.intermediate.dense": "layers.*.networks_*.up_proj",
    "encoder.layer.*.ffn.*.output.dense": "layers.*.networks_*.down_proj",
}
QK = "encoder.layer.*.bottleneck.attention"
"""The place of the bottleneck that queries and keys share."""


def _mobilebert_weights(config: Config) -> Weights:
    """Weight names: BERT's, and those of bottlenecks and further networks."""
    reads_qk = not config.flag("use_bottleneck_attention")
    norms = {**NORMS, QK: "layers.*.attention.qk_bottleneck_norm"} if reads_qk else NORMS
    matrices = {**MATRICES, f"{QK}.dense": "layers.*.attention.qk_bottleneck"} if reads_qk else MATRICES
    affine = config.get("normalization_type") == "no_norm"
    names: dict[str, Rule] = {
        **{f"embeddings.{name}.weight": f"embedding.{ours}.weight" for name, ours in hf.TABLES.items()},
        **{f"{theirs}.*": f"{ours}.*" for theirs, ours in matrices.items()},
        **_norm_names(norms, "scale" if affine else "weight"),
        **({} if reads_qk else _unread_names()),
    }
    transformation = "embeddings.embedding_transformation"
    if _reads_transformation(config):
        names[f"{transformation}.*"] = "embedding.project_in.*"
    else:
        names |= {
            f"{transformation}.weight": hf.idle("embedding_transformation.weight"),
            f"{transformation}.bias": "embedding_transformation_bias.weight",
        }
    ours = {f"[mobilebert.]{name}": rule for name, rule in names.items()}
    return {**with_bert_head(config, ours), **_head_names(config)}


def _norm_names(places: dict[str, str], weight: str) -> dict[str, Rule]:
    """Names of norms at these places, with our word for the gain."""
    return {
        f"{theirs}.LayerNorm.{stored}": f"{ours}.{kind}"
        for theirs, ours in places.items()
        for stored, kind in (("weight", weight), ("bias", "bias"))
    }


def _unread_names() -> dict[str, Rule]:
    """Names of a bottleneck that no pass reads."""
    ours = {"dense": "qk_bottleneck", "LayerNorm": "qk_bottleneck_norm"}
    names: dict[str, Rule] = {}
    for theirs, name in ours.items():
        names[f"{QK}.{theirs}.weight"] = hf.idle(f"layers.*.{name}.weight")
        names[f"{QK}.{theirs}.bias"] = f"layers.*.{name}_bias.weight"
    return names


def _head_names(config: Config) -> dict[str, Rule]:
    """Names of the head's two matrices; the second is stored transposed."""
    rest = "cls.predictions.dense.weight"
    if config.size("embedding_size") == config.size("hidden_size"):
        return {rest: Auxiliary(f"empty, and {hf.UNREAD}")}
    names: dict[str, Rule] = {rest: Parts(("lm_head_rest.weight",), transposed=True)}
    tied = config.flag("tie_word_embeddings")
    return names if tied else {**names, "cls.predictions.decoder.weight": "lm_head_table.weight"}


FAMILIES = {
    "mobilebert": Family(
        "MobileBERT: MobileBertConfig, MobileBertModel and its heads.",
        _mobilebert,
        _mobilebert_weights,
        # it follows from the others
        defaults={"true_hidden_size": None},
    )
}
