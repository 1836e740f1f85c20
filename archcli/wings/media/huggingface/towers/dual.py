"""Image towers of dual encoders (CLIP, SigLIP), and of Janus, which also generates images."""

from __future__ import annotations

from collections.abc import Mapping

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Mapped
from archcli.wings.media.huggingface.towers.source import TowerSource, linear
from archcli.wings.media.huggingface.whole.vit_like import patches, vit_like


def _fixed(source: TowerSource, encoder: Mapped) -> Mapped:
    size = source.size(encoder["front_end"]["image_size"])
    return {"model": encoder, "sizing": {"kind": "fixed", "size": size}, "pooled": True}


def clip(source: TowerSource) -> Mapped:
    """CLIP: the class token, normalized, through a matrix."""
    encoder = source.encoder("vision_config", "clip_vision_model")
    width = source.whole.size("projection_dim", default=512)
    return _fixed(source, {**encoder, "projection": width})


def siglip(source: TowerSource) -> Mapped:
    """SigLIP: attention of one trained query, without a projection."""
    return _fixed(source, source.encoder("vision_config", "siglip_vision_model"))


def siglip2(source: TowerSource) -> Mapped:
    """SigLIP 2: as SigLIP, for images of any shape; the processor limits the number of patches."""
    encoder = source.encoder("vision_config", "siglip2_vision_model")
    patch = hf.bare(encoder["front_end"]["patch_size"])[0]
    most = source.processor.size("max_num_patches", default=0)
    if not most.value:
        source.note("images are read as they are, in whole patches")
        return {"model": encoder, "sizing": {"kind": "exact", "factor": patch}, "pooled": True}
    return {
        "model": encoder,
        "sizing": {"kind": "patch_budget", "patch": patch, "most": most},
        "pooled": True,
    }


def janus(source: TowerSource) -> Mapped:
    """Janus: SigLIP's layers without its pooler, through `depth` linear layers."""
    config = source.part("vision_config")
    config.ignore("hidden_dropout_rate", "projection_dropout")
    # refused: the class builds norms as wide as all heads, and applies them to one head
    config.only("use_qk_norm", False)
    norm, width = hf.layernorm(config.number("layer_norm_eps")), config.size("hidden_size")
    encoder = vit_like(
        config,
        patches(config, class_token=False),
        attention={"bias": True if config.flag("attention_bias").value else ["o"]},
        norm=norm,
        ffn=hf.mlp(config, width.derive(int(width.value * config.number("mlp_ratio").value)), "hidden_act"),
    )
    out, act = config.size("projection_dim"), hf.activation(config, "hidden_act")
    deeper = [{"kind": "activation", "activation": act}, linear(out)]
    steps = [linear(out), *deeper * (config.size("depth").value - 1)]
    config.report_unread_keys()
    size = source.size(encoder["front_end"]["image_size"])
    return {"model": encoder, "sizing": {"kind": "fixed", "size": size}, "projector": steps}


def _conv(inner: int, outer: int, kernel: int = 3) -> int:
    """Parameters of a convolution over rows and columns, with a bias."""
    return inner * outer * kernel * kernel + outer


def _residual(inner: int, outer: int) -> int:
    """Parameters of two convolutions, each after a norm, and of a matrix if the width changes."""
    changed = _conv(inner, outer, 1) if inner != outer else 0
    return 2 * inner + _conv(inner, outer) + 2 * outer + _conv(outer, outer) + changed


def _attention(width: int) -> int:
    """Parameters of a norm, and of attention with one head: four matrices."""
    return 2 * width + 4 * _conv(width, width, 1)


def _levels(widths: list[int], blocks: int, first: int, attends: int) -> int:
    """Parameters of levels of `blocks` residual blocks; in level `attends` attention follows each."""
    total, inner = 0, first
    for level, width in enumerate(widths):
        total += _residual(inner, width) + (blocks - 1) * _residual(width, width)
        total += blocks * _attention(width) if level == attends else 0
        # all but the last level end with a convolution to the next resolution
        total += _conv(width, width) if level < len(widths) - 1 else 0
        inner = width
    return total


def janus_generator(source: TowerSource) -> Mapped:
    """Parameters of Janus's image generator: a VQ-VAE (arXiv:1711.00937), embeddings of its codes, a head.

    No pass that reads text or images runs it.
    """
    config = source.part("vq_config")
    config.ignore("dropout", "num_patches", "hidden_act")
    size = {key: config.size(key).value for key, value in config.defaults.items() if type(value) is int}
    latent, code, width = size["latent_channels"], size["embed_dim"], size["projection_dim"]
    codes = size["num_embeddings"] * code + _conv(latent, code, 1) + _conv(code, latent, 1)
    reading = size["num_embeddings"] * code + (code + 1) * width
    reading += (size["num_hidden_layers"] - 1) * (width + 1) * width
    head = (size["image_token_embed_dim"] + 1) * width + (width + 1) * size["num_embeddings"]
    total = _autoencoder(config, size) + codes + reading + head
    config.report_unread_keys()
    return {"part": "image_generator", "params": total}


def _autoencoder(config: Config, size: Mapping[str, int]) -> int:
    """Parameters of the encoder and the decoder of pixels."""
    levels = config.value("channel_multiplier")
    factors: list[int] = [*levels.value] if isinstance(levels.value, list | tuple) else []
    if not factors or not all(type(n) is int and n > 0 for n in factors):
        raise config.error("channel_multiplier must be a list of whole numbers", at=levels.place)
    base, latent = size["base_channels"], size["latent_channels"]
    widths, blocks = [base * n for n in factors], size["num_res_blocks"]
    inmost = widths[-1]
    middle = 2 * _residual(inmost, inmost) + _attention(inmost)
    channels = (1 + config.flag("double_latent").value) * latent
    encoder = _conv(size["in_channels"], base) + _levels(widths, blocks, base, len(widths) - 1)
    encoder += middle + 2 * inmost + _conv(inmost, channels)
    decoder = _conv(latent, inmost) + middle + _levels(widths[::-1], blocks + 1, inmost, 0)
    decoder += 2 * widths[0] + _conv(widths[0], size["out_channels"])
    total: int = encoder + decoder
    return total
