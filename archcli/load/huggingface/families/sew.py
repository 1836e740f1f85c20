"""SEW and SEW-D: waves whose positions are squeezed before the layers, and made again behind them."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Rule, Weights
from archcli.load.huggingface.whole.deberta_like import disentangled, terms_of
from archcli.load.huggingface.whole.vit_like import vit_like
from archcli.load.huggingface.whole.wave_like import FRONT, NO_SIZE, sizes, wave, wave_ends, wave_names


def _squeezed(config: Config, prefix: str, eps: str, *, normed: bool, **more: Any) -> Mapped:
    """The wave with squeezed positions, layers as BERT's, and the matrix that makes positions again.

    `eps` is the key of the norm of what was convolved; `normed` positions have a norm, too.
    """
    endings = ("Model", "ForCTC", "ForSequenceClassification")
    config.only_architectures(*(prefix + ending for ending in endings))
    config.ignore(*NO_SIZE.split(), "vocab_size", "do_stable_layer_norm", "feat_proj_layer_norm")
    config.only("add_adapter", False, default=False)
    channels = sizes(config, "conv_dim")
    front_end = {
        **wave(config, hf.layernorm(config.number(eps)), stable=not normed),
        "input_norm": hf.layernorm(config.number(eps)),
        "squeeze": config.size("squeeze_factor"),
        **({"projects": False} if channels.value[-1] == config.size("hidden_size").value else {}),
    }
    return vit_like(
        config,
        front_end,
        norm=hf.layernorm(config.number("layer_norm_eps")),
        layer={"kind": "post_norm"},
        final_norm=False,
        upsampling=hf.activation(config, "feat_extract_activation"),
        **wave_ends(config),
        **more,
    )


def _sew(config: Config) -> Mapped:
    """SEW: wav2vec 2.0 with squeezed positions."""
    return _squeezed(config, "SEW", "layer_norm_eps", normed=True)


def _sew_d(config: Config) -> Mapped:
    """SEW-D: layers are DeBERTa's, without a norm in front of the first."""
    config.only("attention_head_size", hf.even_split(config).value, default=hf.even_split(config))
    config.only("conv_kernel_size", 0, default=0)
    attention, relative = disentangled(config)
    if attention.get("share") and len(terms_of(config)) == 1:
        what = "share_att_key with one of c2p and p2c is not supported: the class projects positions twice"
        raise config.error(what, "state both", config.place("pos_att_type"))
    return _squeezed(config, "SEWD", "feature_layer_norm_eps", normed=False, attention=attention, **relative)


def _wave_part(config: Config, base: str) -> dict[str, Rule]:
    """Names of the front end, of what makes positions again, and of the heads."""
    within = f"[{base}.]"
    return {
        **wave_names(config, within),
        f"{within}layer_norm.*": f"{FRONT}.input_norm.*",
        f"{within}feature_projection.*": f"{FRONT}.project.*",
        f"{within}encoder.upsample.projection.*": "upsample.*",
    }


def _sew_names(config: Config) -> Weights:
    """Names of SEW's tensors."""
    layers, ours = "[sew.]encoder.layers.*", "layers.*"
    return {
        **_wave_part(config, "sew"),
        "[sew.]encoder.layer_norm.*": f"{FRONT}.norm.*",
        **{f"{layers}.attention.{n}_proj.*": f"{ours}.attention.{n}_proj.*" for n in "qkv"},
        f"{layers}.attention.out_proj.*": f"{ours}.attention.o_proj.*",
        f"{layers}.layer_norm.*": f"{ours}.attention_norm.*",
        f"{layers}.feed_forward.intermediate_dense.*": f"{ours}.ffn.up_proj.*",
        f"{layers}.feed_forward.output_dense.*": f"{ours}.ffn.down_proj.*",
        f"{layers}.final_layer_norm.*": f"{ours}.ffn_norm.*",
    }


PROJECTIONS = {
    "query_proj": "q_proj",
    "key_proj": "k_proj",
    "value_proj": "v_proj",
    "pos_key_proj": "pos_k_proj",
    "pos_query_proj": "pos_q_proj",
}


def _sew_d_names(config: Config) -> Weights:
    """Names of SEW-D's tensors."""
    encoder, ours = "[sew_d.]encoder.encoder", "layers.*"
    layers = f"{encoder}.layer.*"
    return {
        **_wave_part(config, "sew_d"),
        f"{encoder}.rel_embeddings.weight": "relative.weight",
        f"{encoder}.LayerNorm.*": "relative_norm.*",
        **{
            f"{layers}.attention.self.{theirs}.*": f"{ours}.attention.{part}.*"
            for theirs, part in PROJECTIONS.items()
        },
        f"{layers}.attention.output.dense.*": f"{ours}.attention.o_proj.*",
        f"{layers}.attention.output.LayerNorm.*": f"{ours}.attention_norm.*",
        f"{layers}.intermediate.dense.*": f"{ours}.ffn.up_proj.*",
        f"{layers}.output.dense.*": f"{ours}.ffn.down_proj.*",
        f"{layers}.output.LayerNorm.*": f"{ours}.ffn_norm.*",
    }


FAMILIES = {
    "sew": Family("SEW: SEWConfig, SEWModel, SEWForCTC.", _sew, _sew_names),
    "sew-d": Family("SEW-D: SEWDConfig, SEWDModel, SEWDForCTC.", _sew_d, _sew_d_names),
}
