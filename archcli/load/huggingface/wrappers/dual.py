"""Encoders of images beside one of texts, both with one vector: CLIP, SigLIP, SigLIP 2."""

from __future__ import annotations

from archcli.load.huggingface.config_json import Mapped, bare
from archcli.load.huggingface.wrappers.beside import TowerSource


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
    """SigLIP 2: as SigLIP, for images of any shape, of which a processor bounds the number of patches."""
    encoder = source.encoder("vision_config", "siglip2_vision_model")
    patch = bare(encoder["front_end"]["patch_size"])[0]
    most = source.processor.size("max_num_patches", default=0)
    if not most.value:
        source.note("images are read as they are, in whole patches")
        return {"model": encoder, "sizing": {"kind": "exact", "factor": patch}, "pooled": True}
    return {
        "model": encoder,
        "sizing": {"kind": "patch_budget", "patch": patch, "most": most},
        "pooled": True,
    }
