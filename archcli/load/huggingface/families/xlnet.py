"""XLNet."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.bert_like import bert_like
from archcli.load.huggingface.whole.gpt_like import SUMMARY

PREFIX = "XLNet"
PARTS: dict[str, tuple[str, ...]] = {
    "Model": (),
    "LMHeadModel": ("words",),
    "ForTokenClassification": ("labels",),
}
UNREAD = """
    mem_len reuse_len use_mems_eval use_mems_train same_length start_n_top end_n_top summary_last_dropout
    initializer_range n_token untie_r
"""


def _xlnet(config: Config) -> Mapped:
    """Post-norm with Transformer-XL's relative positions; all tokens see each other, in one stream.

    Of the pass that predicts in another order it has the weights: they are counted, and read by no pass.
    """
    config.only("attn_type", "bi")
    config.only("bi_data", False)
    if config.number("clamp_len").value > 0:
        what = f"clamp_len {config.get('clamp_len')} is not supported"
        raise config.error(what, "supported: -1", config.place("clamp_len"))
    config.ignore(*UNREAD.split(), *SUMMARY)
    width, heads = hf.even_split(config), config.size("num_attention_heads")
    config.only("d_head", width.value, default=width.value)
    segments = {"segment_bias": [heads, width], "segments": [2, heads, width]}
    whole = bert_like(
        config,
        PREFIX,
        PARTS,
        attention={"kind": "transformer_xl", "bias": False},
        ffn=hf.mlp(config, config.size("d_inner"), "ff_activation"),
        layer={"unread": segments},
        embedding={"position": {"kind": "none"}, "norm": None, "token_types": 0},
        head={"transform": False},
    )
    config.note(
        "vectors of segments and of masked words are counted, and read by passes that state them alone"
    )
    return {**whole, "unread": {"mask_emb": [1, 1, config.size("hidden_size")]}}


def _xlnet_weights(config: Config) -> Weights:
    """Weight names; matrices are stored head by head."""
    heads = config.size("num_attention_heads").value
    layer = "[transformer.]layer.*"
    names: dict[str, Rule] = {
        f"{layer}.rel_attn.{which}": Parts(
            (f"layers.*.attention.{which}_proj.weight",), transposed=which != "o", heads=heads
        )
        for which in "qkvor"
    }
    names |= {
        f"{layer}.rel_attn.r_w_bias": "layers.*.attention.content_bias.weight",
        f"{layer}.rel_attn.r_r_bias": "layers.*.attention.distance_bias.weight",
        f"{layer}.rel_attn.r_s_bias": "layers.*.segment_bias.weight",
        f"{layer}.rel_attn.seg_embed": "layers.*.segments.weight",
        f"{layer}.rel_attn.layer_norm.*": "layers.*.attention_norm.*",
        f"{layer}.ff.layer_1.*": "layers.*.ffn.up_proj.*",
        f"{layer}.ff.layer_2.*": "layers.*.ffn.down_proj.*",
        f"{layer}.ff.layer_norm.*": "layers.*.ffn_norm.*",
    }
    return {
        **names,
        "[transformer.]word_embedding.weight": "embedding.tokens.weight",
        "[transformer.]mask_emb": "mask_emb.weight",
        "lm_loss.*": "lm_head.*",
        "classifier.*": "classifier.*",
    }


FAMILIES = {
    "xlnet": Family(
        "XLNet: XLNetConfig, XLNetModel, XLNetLMHeadModel and its tagger, without the second stream.",
        _xlnet,
        _xlnet_weights,
        aliases={
            "hidden_size": "d_model",
            "num_attention_heads": "n_head",
            "num_hidden_layers": "n_layer",
        },
    ),
}
