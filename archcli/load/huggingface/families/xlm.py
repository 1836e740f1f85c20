"""XLM: XLMConfig and XLMWithLMHeadModel."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.bert_like import bert_like
from archcli.load.huggingface.whole.gpt_like import SUMMARY, post_norm_decoder

MODEL_TYPES = ("xlm",)

ALIASES = {
    "hidden_size": "emb_dim",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "vocab_size": "n_words",
}
PREFIX = "XLM"
PARTS: dict[str, tuple[str, ...]] = {
    "WithLMHeadModel": ("words",),
    "Model": (),
    "ForTokenClassification": ("labels",),
    "ForQuestionAnsweringSimple": ("labels",),
}
TOKENS = ("bos_index", "eos_index", "pad_index", "unk_index", "mask_index", "lang_id", "lang2id", "id2lang")
RUNNING = ("embed_init_std", "sinusoidal_embeddings", "start_n_top", "end_n_top", "max_vocab", "min_count")


def mapping(config: Config) -> Mapped:
    """BERT's layers, 4 emb_dim wide, with a plain biased head; causal where the file says so."""
    config = config.of_class(**ALIASES)
    config.only_architectures(*(PREFIX + name for name in PARTS))
    config.only("is_encoder", True, default=True)
    config.only("asm", False, default=False)
    config.ignore(*TOKENS, *RUNNING, *SUMMARY, "share_inout_emb", "same_enc_dec", "type_vocab_size")
    width = config.size("hidden_size")
    function = "gelu" if config.flag("gelu_activation") else "relu"
    ffn = {"kind": "mlp", "d_ff": width.derive(4 * width.value), "activation": function, "bias": True}
    norm = layernorm(config.number("layer_norm_eps"))
    if config.flag("causal"):
        whole = post_norm_decoder(config, norm, ffn, normed=True, head={"bias": True})
    else:
        types: Mapped = {"token_types": 0}
        whole = bert_like(config, PREFIX, PARTS, ffn=ffn, head={"transform": False}, embedding=types)
    languages = config.size("n_langs")
    if languages.value == 1 or not config.flag("use_lang_emb"):
        return whole
    config.note("a vector for each language is counted, and read where a pass is told of languages alone")
    return {**whole, "unread": {"lang_embeddings": [languages, width]}}


WEIGHTS: Weights = {
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
