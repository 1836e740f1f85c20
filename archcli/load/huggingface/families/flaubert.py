"""FlauBERT: FlaubertConfig and FlaubertWithLMHeadModel."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bert_like import bert_like

MODEL_TYPES = ("flaubert",)
ALIASES = {"hidden_size": "emb_dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
HEADS = {"Model": (), "WithLMHeadModel": ("words",), "ForTokenClassification": ("labels",)}
UNREAD = (
    "summary_type summary_use_proj summary_proj_to_labels summary_first_dropout start_n_top end_n_top "
    "lang_id embed_init_std init_std unk_index mask_index bos_index eos_index pad_index "
    "sinusoidal_embeddings lang2id id2lang layerdrop amp bptt data_path encoder_only group_by_size n_words"
)


def mapping(config: Config) -> Mapped:
    """As BERT without segment types and without a transform in the head; the network is 4 times as wide."""
    config = config.of_class(**ALIASES)
    config.only("is_encoder", True)
    config.only("causal", False)
    config.only("asm", False)
    config.ignore(*UNREAD.split())
    words, width = config.size("vocab_size"), config.size("hidden_size")
    if config.size("n_words", default=words) != words:
        raise config.error("n_words and vocab_size differ", "leave n_words out", config.place("n_words"))
    function = "gelu" if config.flag("gelu_activation") else "relu"
    ffn = {"kind": "mlp", "d_ff": width.derive(4 * width.value), "activation": function, "bias": True}
    langs = config.size("n_langs")
    more = {"more_types": [langs]} if langs.value > 1 and config.flag("use_lang_emb") else {}
    first = config.flag("pre_norm")
    return bert_like(
        config,
        "Flaubert",
        HEADS,
        block="pre_norm" if first else "post_norm",
        final_norm=False,
        ffn=ffn,
        embedding=more,
        head={"transform": False},
    )


LAYERS = {
    **{f"attentions.*.{which}_lin": f"attention.{which}_proj" for which in "qkv"},
    "attentions.*.out_lin": "attention.o_proj",
    "layer_norm1.*": "attention_norm",
    "ffns.*.lin1": "ffn.up_proj",
    "ffns.*.lin2": "ffn.down_proj",
    "layer_norm2.*": "ffn_norm",
}
WEIGHTS: Weights = {
    "[transformer.]embeddings.weight": "embedding.tokens.weight",
    "[transformer.]position_embeddings.weight": "embedding.positions.weight",
    "[transformer.]lang_embeddings.weight": "embedding.more_types_0.weight",
    "[transformer.]layer_norm_emb.*": "embedding.norm.*",
    **{f"[transformer.]{name}.*": f"layers.*.{ours}.*" for name, ours in LAYERS.items()},
    "pred_layer.proj.*": "lm_head.*",
    "classifier.*": "classifier.*",
}
