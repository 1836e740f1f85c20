"""Vision transformers with a class token: ViT, DeiT, BEiT and their kin."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Rule, Weights
from archcli.wings.media.huggingface.whole.vit_like import (
    CLASSIFIER,
    FRONT,
    MODERN,
    NORMS,
    STORED,
    class_ending,
    flat,
    labels,
    named_front,
    named_layers,
    patches,
    qkv_biases,
    sides,
    unread_token,
    vit_like,
)


def _pooled(config: Config) -> Mapped:
    """The base model's pooler: a square matrix and an activation on the class token."""
    width = config.size("hidden_size")
    size = config.size("pooler_output_size", default=width)
    if size.value != width.value:
        what = f"a pooler of {size} is not supported"
        raise config.error(what, f"hidden_size is {width}", size.place)
    act = config.value("pooler_act")
    function = "tanh" if act.value == "tanh" else hf.ACTIVATIONS.get(str(act.value))
    if function is None:
        raise config.error(f"pooler_act {act.value!r} is not supported", at=act.place)
    return {"kind": "first", "dense": True, "activation": function}


def _vit(config: Config) -> Mapped:
    """ViT: a class token, learned positions, biases on q, k and v."""
    config.ignore("pooler_output_size", "pooler_act")
    ends: Mapped = {"pooling": _pooled(config)}
    if class_ending(config, "ViT", CLASSIFIER) == CLASSIFIER:
        ends = {"pooling": {"kind": "first"}, **labels(config)}
    return vit_like(config, patches(config), attention={"bias": qkv_biases(config)}, **ends)


def _vit_msn(config: Config) -> Mapped:
    """MSN: ViT without a pooler."""
    ends: Mapped = {}
    if class_ending(config, "ViTMSN", CLASSIFIER) == CLASSIFIER:
        ends = {"pooling": {"kind": "first"}, **labels(config)}
    return vit_like(config, patches(config), attention={"bias": qkv_biases(config)}, **ends)


MAE_DECODER = (
    "decoder_num_attention_heads",
    "decoder_hidden_size",
    "decoder_num_hidden_layers",
    "decoder_intermediate_size",
    "norm_pix_loss",
)


def _vit_mae(config: Config) -> Mapped:
    """MAE's encoder: of the patches a share is left out, at random."""
    config.only_architectures("ViTMAEModel")
    config.ignore(*MAE_DECODER)
    config.only("head_dim", hf.even_split(config).value, default=hf.even_split(config))
    image, patch = sides(config, "image_size").value, sides(config, "patch_size").value
    ratio = config.number("mask_ratio")
    kept = int((image[0] // patch[0]) * (image[1] // patch[1]) * (1 - ratio.value))
    if kept < 1 or ratio.value < 0:
        raise config.error(f"mask_ratio {ratio} keeps no share of the patches", at=ratio.place)
    config.note("the patches that mask_ratio leaves out are drawn at random; a pass keeps the first")
    front_end = {**patches(config, kept=ratio.derive(kept)), "resize": None, "frozen": True}
    return vit_like(config, front_end, attention={"bias": qkv_biases(config)})


def _ijepa(config: Config) -> Mapped:
    """I-JEPA: ViT without a class token; the mean of all tokens is classified."""
    config.ignore("pooler_output_size", "pooler_act")
    ends: Mapped = {}
    if class_ending(config, "IJepa", CLASSIFIER) == CLASSIFIER:
        ends = {"pooling": {"kind": "mean"}, **labels(config)}
    front_end = patches(config, class_token=False)
    return vit_like(config, front_end, attention={"bias": qkv_biases(config)}, **ends)


def _deit(config: Config) -> Mapped:
    """DeiT: as ViT, with a token that learns from a teacher."""
    config.ignore("pooler_output_size", "pooler_act")
    kind = class_ending(config, "DeiT", CLASSIFIER, f"{CLASSIFIER}WithTeacher")
    ends: Mapped = {"pooling": _pooled(config)}
    if kind != "Model":
        ends = {"pooling": {"kind": "first"}, **labels(config), "teacher": kind.endswith("Teacher")}
    front_end = patches(config, teacher_token=True)
    return vit_like(config, front_end, attention={"bias": qkv_biases(config)}, **ends)


DPT_HEADS = (
    "backbone_out_indices",
    "readout_type",
    "reassemble_factors",
    "neck_hidden_sizes",
    "fusion_hidden_size",
    "head_in_index",
    "use_auxiliary_head",
    "auxiliary_loss_weight",
    "semantic_loss_ignore_index",
    "semantic_classifier_dropout",
    "backbone_featmap_shape",
    "neck_ignore_stages",
    "use_batch_norm_in_fusion_residual",
    "use_bias_in_fusion_residual",
    "add_projection",
)
"""Keys of its decoder alone."""
BEIT_HEADS = (
    "vocab_size",
    "pool_scales",
    "use_auxiliary_head",
    "auxiliary_loss_weight",
    "auxiliary_channels",
    "auxiliary_num_convs",
    "auxiliary_concat_input",
    "semantic_loss_ignore_index",
    "add_fpn",
    "pooler_output_size",
    "pooler_act",
)


def _beit(config: Config, prefix: str = "Beit") -> Mapped:
    """BEiT: biases by differences of row and column, no bias on keys, scaled branches, a mean as pooler."""
    config.ignore(*BEIT_HEADS, "qkv_bias")
    is_classifier = class_ending(config, prefix, CLASSIFIER) == CLASSIFIER
    image, patch, width = sides(config, "image_size"), sides(config, "patch_size"), config.size("hidden_size")
    grid = [image.value[i] // patch.value[i] for i in (0, 1)]
    learned = config.flag("use_absolute_position_embeddings").value
    front_end = patches(config, position=None if learned else "none", resize="none")
    front_end["resize"] = None
    bias = {"kind": "grid_bias", "grid": image.derive(grid)}
    norm, means = hf.layernorm(config.number("layer_norm_eps")), config.flag("use_mean_pooling").value
    scale = config.number("layer_scale_init_value")
    more: Mapped = {"score_bias": bias} if config.flag("use_shared_relative_position_bias").value else {}
    if config.flag("use_mask_token").value:
        more |= unread_token(width)
    return vit_like(
        config,
        front_end,
        attention={
            "bias": ["q", "v", "o"],
            **({"position": bias} if config.flag("use_relative_position_bias").value else {}),
        },
        layer={"layer_scale": scale} if scale.value > 0 else {},
        final_norm=not means,
        pooling={"kind": "mean", "skipped": 1, "norm": norm} if means else {"kind": "first"},
        **(labels(config) if is_classifier else {}),
        **more,
    )


def _data2vec(config: Config) -> Mapped:
    """data2vec on images: BEiT's encoder."""
    encoder = _beit(config, "Data2VecVision")
    # its base model has no pooler by default
    return encoder if "n_labels" in encoder else {k: v for k, v in encoder.items() if k != "pooling"}


def _dpt(config: Config) -> Mapped:
    """DPT without its decoder: ViT, whose table of positions is resized to any image."""
    config.only_architectures("DPTModel")
    config.only("is_hybrid", False)
    if config.get("backbone_config", default=None):
        raise config.error("a DPT with a backbone is not supported", at=config.place("backbone_config"))
    config.ignore(*DPT_HEADS)
    front_end = patches(config, resize="bilinear")
    return vit_like(config, front_end, attention={"bias": qkv_biases(config)}, pooling=_pooled(config))


def _ratio(config: Config) -> Mapped:
    """A network of mlp_ratio times the width."""
    width = config.size("hidden_size")
    d_ff = width.derive(int(width.value * config.number("mlp_ratio").value))
    return hf.mlp(config, d_ff, "hidden_act")


def _pixio(config: Config) -> Mapped:
    """Pixio: several class tokens."""
    config.only_architectures("PixioModel")
    front_end = patches(config, class_tokens=config.size("n_cls_tokens"))
    return vit_like(config, front_end, attention={"bias": qkv_biases(config)}, ffn=_ratio(config))


def _vit_weights(base: str, **more: Rule) -> Weights:
    """Names of ViT and DeiT, as in memory and as stored."""
    return {
        **named_front(f"[{base}.]embeddings"),
        **named_layers(f"[{base}.]layers.*", {**MODERN, **NORMS}),
        **named_layers(f"[{base}.]encoder.layer.*", {**STORED, **NORMS}),
        f"[{base}.]layernorm.*": "final_norm.*",
        f"[{base}.]pooler.dense.*": "pooling.dense.*",
        "classifier.*": "classifier.*",
        **more,
    }


DEIT: Weights = {
    **_vit_weights("deit"),
    "[deit.]embeddings.distillation_token": flat(f"{FRONT}.teacher_token.weight", 2),
    "cls_classifier.*": "classifier.*",
    "distillation_classifier.*": "teacher_classifier.*",
}
BIASES = "relative_position_bias.relative_position_bias_table"


def _beit_weights(base: str) -> Weights:
    """Names of BEiT and data2vec, as in memory and as stored."""
    scales = {
        "lambda_1": "attention_layer_scale.scale",
        "lambda_2": "ffn_layer_scale.scale",
    }
    stored = {f"attention.attention.{BIASES}": "attention.score_bias.weight"}
    return {
        **_vit_weights(base),
        **named_layers(f"[{base}.]layers.*", {**scales, BIASES: "attention.score_bias.weight"}),
        **named_layers(f"[{base}.]encoder.layer.*", {**scales, **stored}),
        f"[{base}.]shared_position_bias.relative_position_bias_table": "score_bias.weight",
        f"[{base}.]encoder.{BIASES}": "score_bias.weight",
        f"[{base}.]embeddings.mask_token": flat("mask_token.weight", 2),
        f"[{base}.]pooler.layernorm.*": "pooling.norm.*",
    }


PIXIO: Weights = {
    **_vit_weights("pixio"),
    "[pixio.]embeddings.cls_token": flat(f"{FRONT}.class_token.weight"),
    "[pixio.]encoder.layer.*.norm1.*": "layers.*.attention_norm.*",
    "[pixio.]encoder.layer.*.norm2.*": "layers.*.ffn_norm.*",
}
FAMILIES = {
    "vit": Family("ViT: ViTConfig, ViTModel, ViTForImageClassification.", _vit, _vit_weights("vit")),
    "vit_msn": Family(
        "MSN: ViTMSNConfig, ViTMSNModel, ViTMSNForImageClassification.", _vit_msn, _vit_weights("vit")
    ),
    "vit_mae": Family("MAE's encoder: ViTMAEConfig, ViTMAEModel.", _vit_mae, _vit_weights("vit")),
    "ijepa": Family(
        "I-JEPA: IJepaConfig, IJepaModel, IJepaForImageClassification.", _ijepa, _vit_weights("ijepa")
    ),
    "deit": Family("DeiT: DeiTConfig, DeiTModel and its classifiers.", _deit, DEIT),
    "beit": Family("BEiT: BeitConfig, BeitModel, BeitForImageClassification.", _beit, _beit_weights("beit")),
    "data2vec-vision": Family(
        "data2vec on images: Data2VecVisionConfig, its base model and classifier.",
        _data2vec,
        _beit_weights("data2vec_vision"),
    ),
    "dpt": Family("DPT's encoder: DPTConfig, DPTModel.", _dpt, _vit_weights("dpt")),
    "pixio": Family("Pixio: PixioConfig, PixioModel.", _pixio, PIXIO),
}
