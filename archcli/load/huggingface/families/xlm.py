"""XLM and FlauBERT."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Weights
from archcli.load.huggingface.whole.bert_like import bert_like
from archcli.load.huggingface.whole.gpt_like import SUMMARY, post_norm_decoder

XLM_ALIASES = {
    "hidden_size": "emb_dim",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "vocab_size": "n_words",
}
XLM_PREFIX = "XLM"
XLM_PARTS: dict[str, tuple[str, ...]] = {
    "WithLMHeadModel": ("words",),
    "Model": (),
    "ForTokenClassification": ("labels",),
    "ForQuestionAnsweringSimple": ("labels",),
}
"""By ending of the class's name, what it has on the encoder: see `Heads` of whole/bert_like.py."""

XLM_UNREAD = """
    bos_index eos_index pad_index unk_index mask_index lang_id lang2id id2lang embed_init_std
    sinusoidal_embeddings start_n_top end_n_top max_vocab min_count share_inout_emb same_enc_dec
    type_vocab_size
"""


def _xlm(config: Config) -> Mapped:
    """BERT's layers with networks 4 emb_dim wide and a plain biased head; a decoder if `causal`."""
    config.only_architectures(*(XLM_PREFIX + name for name in XLM_PARTS))
    config.only("is_encoder", True, default=True)
    config.only("asm", False, default=False)
    config.ignore(*XLM_UNREAD.split(), *SUMMARY)
    width = config.size("hidden_size")
    function = "gelu" if config.flag("gelu_activation") else "relu"
    ffn = {"kind": "mlp", "d_ff": width.derive(4 * width.value), "activation": function, "bias": True}
    norm = hf.layernorm(config.number("layer_norm_eps"))
    if config.flag("causal"):
        whole = post_norm_decoder(config, norm, ffn, normed=True, head={"bias": True})
    else:
        types: Mapped = {"token_types": 0}
        whole = bert_like(config, XLM_PREFIX, XLM_PARTS, ffn=ffn, head={"transform": False}, embedding=types)
    languages = config.size("n_langs")
    if languages.value == 1 or not config.flag("use_lang_emb"):
        return whole
    config.note("a vector for each language is counted, and read where a pass is told of languages alone")
    return {**whole, "unread": {"lang_embeddings": [languages, width]}}


XLM_WEIGHTS: Weights = {
    "[transformer.]embeddings.weight": "embedding.tokens.weight",
    "[transformer.]position_embeddings.weight": "embedding.positions.weight",
    "[transformer.]lang_embeddings.weight": "lang_embeddings.weight",
    "[transformer.]layer_norm_emb.*": "embedding.norm.*",
    **{
        f"[transformer.]attentions.*.{name}_lin.*": f"layers.*.attention.{ours}_proj.*"
        for name, ours in (("q", "q"), ("k", "k"), ("v", "v"), ("out", "o"))
    },
    "[transformer.]layer_norm1.*.*": "layers.*.attention_norm.*",
    "[transformer.]ffns.*.lin1.*": "layers.*.ffn.up_proj.*",
    "[transformer.]ffns.*.lin2.*": "layers.*.ffn.down_proj.*",
    "[transformer.]layer_norm2.*.*": "layers.*.ffn_norm.*",
    "pred_layer.proj.*": "lm_head.*",
    "classifier.*": "classifier.*",
    "qa_outputs.*": "classifier.*",
}


FLAUBERT_ALIASES = {
    "hidden_size": "emb_dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
}
FLAUBERT_HEADS = {"Model": (), "WithLMHeadModel": ("words",), "ForTokenClassification": ("labels",)}
FLAUBERT_UNREAD = (
    "summary_type summary_use_proj summary_proj_to_labels summary_first_dropout start_n_top end_n_top "
    "lang_id embed_init_std init_std unk_index mask_index bos_index eos_index pad_index "
    "sinusoidal_embeddings lang2id id2lang layerdrop amp bptt data_path encoder_only group_by_size n_words"
)


def _flaubert(config: Config) -> Mapped:
    """BERT without segment types, with networks 4 emb_dim wide and a plain head."""
    config.only("is_encoder", True)
    config.only("causal", False)
    config.only("asm", False)
    config.ignore(*FLAUBERT_UNREAD.split())
    vocab_size, width = config.size("vocab_size"), config.size("hidden_size")
    if config.size("n_words", default=vocab_size) != vocab_size:
        raise config.error("n_words and vocab_size differ", "leave n_words out", config.place("n_words"))
    function = "gelu" if config.flag("gelu_activation") else "relu"
    ffn = {"kind": "mlp", "d_ff": width.derive(4 * width.value), "activation": function, "bias": True}
    langs = config.size("n_langs")
    more = {"more_types": [langs]} if langs.value > 1 and config.flag("use_lang_emb") else {}
    return bert_like(
        config,
        "Flaubert",
        FLAUBERT_HEADS,
        # pre-norm layers end without a norm in this class: the head reads the stream as it is
        block="pre_norm" if config.flag("pre_norm") else "post_norm",
        final_norm=False,
        ffn=ffn,
        embedding=more,
        head={"transform": False},
    )


FLAUBERT_LAYERS = {
    **{f"attentions.*.{which}_lin": f"attention.{which}_proj" for which in "qkv"},
    "attentions.*.out_lin": "attention.o_proj",
    "layer_norm1.*": "attention_norm",
    "ffns.*.lin1": "ffn.up_proj",
    "ffns.*.lin2": "ffn.down_proj",
    "layer_norm2.*": "ffn_norm",
}
FLAUBERT_WEIGHTS: Weights = {
    "[transformer.]embeddings.weight": "embedding.tokens.weight",
    "[transformer.]position_embeddings.weight": "embedding.positions.weight",
    "[transformer.]lang_embeddings.weight": "embedding.more_types_0.weight",
    "[transformer.]layer_norm_emb.*": "embedding.norm.*",
    **{f"[transformer.]{name}.*": f"layers.*.{ours}.*" for name, ours in FLAUBERT_LAYERS.items()},
    "pred_layer.proj.*": "lm_head.*",
    "classifier.*": "classifier.*",
}


FAMILIES = {
    "xlm": Family("XLM: XLMConfig and XLMWithLMHeadModel.", _xlm, XLM_WEIGHTS, aliases=XLM_ALIASES),
    "flaubert": Family(
        "FlauBERT: FlaubertConfig and FlaubertWithLMHeadModel.",
        _flaubert,
        FLAUBERT_WEIGHTS,
        aliases=FLAUBERT_ALIASES,
    ),
}
