"""Names of the tensors of towers and projectors in files of multimodal models.

Imported for files with towers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from archcli.load.huggingface.config_json import bare
from archcli.load.huggingface.family import TowerRow
from archcli.load.huggingface.registry import family_of
from archcli.load.huggingface.weights.map import Auxiliary, Parts, Rule, Weights, parts_of
from archcli.load.huggingface.weights.names import fairseq_layers

Mapped = Mapping[str, Any]
FRONT, LAYERS = "front_end", "layers.*"
CONV = "patch_embed.proj.weight"
"""A convolution over channels, frames, rows and columns."""
FUSED = Parts(tuple(f"{LAYERS}.attention.{n}_proj.*" for n in "qkv"))
WEIGHTED = ("linear", "norm")
"""Kinds of steps that have weights, which a step calls by its kind."""

PIXTRAL: Weights = {
    "patch_conv.*": f"{FRONT}.patches.*",
    "ln_pre.*": f"{FRONT}.norm.*",
    **{f"transformer.layers.*.attention.{n}_proj.*": f"{LAYERS}.attention.{n}_proj.*" for n in "qkvo"},
    **{
        f"transformer.layers.*.feed_forward.{n}_proj.*": f"{LAYERS}.ffn.{n}_proj.*"
        for n in ("gate", "up", "down")
    },
    **{f"transformer.layers.*.{n}_norm.*": f"{LAYERS}.{n}_norm.*" for n in ("attention", "ffn")},
}
INTERN_VIT: Weights = {
    "embeddings.cls_token": Parts((f"{FRONT}.class_token.weight",), flat=2),
    "embeddings.position_embeddings": Parts((f"{FRONT}.positions.weight",), flat=1),
    "embeddings.patch_embeddings.projection.*": f"{FRONT}.patches.*",
    **{f"encoder.layer.*.attention.{n}_proj.*": f"{LAYERS}.attention.{n}_proj.*" for n in "qkv"},
    "encoder.layer.*.attention.projection_layer.*": f"{LAYERS}.attention.o_proj.*",
    **{f"encoder.layer.*.attention.{n}_norm.*": f"{LAYERS}.attention.{n}_norm.*" for n in "qk"},
    "encoder.layer.*.lambda_1": f"{LAYERS}.attention_layer_scale.scale",
    "encoder.layer.*.lambda_2": f"{LAYERS}.ffn_layer_scale.scale",
    "encoder.layer.*.layernorm_before.*": f"{LAYERS}.attention_norm.*",
    "encoder.layer.*.layernorm_after.*": f"{LAYERS}.ffn_norm.*",
    "encoder.layer.*.mlp.fc1.*": f"{LAYERS}.ffn.up_proj.*",
    "encoder.layer.*.mlp.fc2.*": f"{LAYERS}.ffn.down_proj.*",
    "layernorm.*": "final_norm.*",
}
WHISPER: Weights = {
    "conv1.*": f"{FRONT}.conv1.*",
    "conv2.*": f"{FRONT}.conv2.*",
    "embed_positions.weight": f"{FRONT}.positions.weight",
    **fairseq_layers("layers.*", LAYERS),
    "layer_norm.*": "final_norm.*",
}
BLOCKS: Weights = {
    CONV: f"{FRONT}.patches.weight",
    "patch_embed.proj.bias": f"{FRONT}.patches.bias",
    "blocks.*.norm1.*": f"{LAYERS}.attention_norm.*",
    "blocks.*.norm2.*": f"{LAYERS}.ffn_norm.*",
    "blocks.*.attn.qkv.*": FUSED,
    "blocks.*.attn.proj.*": f"{LAYERS}.attention.o_proj.*",
    **{f"blocks.*.mlp.{n}_proj.*": f"{LAYERS}.ffn.{n}_proj.*" for n in ("gate", "up", "down")},
    **{f"blocks.*.mlp.{n}fc1.*": f"{LAYERS}.ffn.up_proj.*" for n in ("", "linear_")},
    **{f"blocks.*.mlp.{n}fc2.*": f"{LAYERS}.ffn.down_proj.*" for n in ("", "linear_")},
    "pos_embed.weight": f"{FRONT}.positions.weight",
}
"""Encoders of Qwen's kind, whose patches hold several frames."""


STREAMED: Weights = {
    **{f"embedder.conv{i}.*": f"{FRONT}.conv{i}.*" for i in (1, 2)},
    **{f"layers.*.self_attn.{n}_proj.*": f"{LAYERS}.attention.{n}_proj.*" for n in "qkvo"},
    "layers.*.self_attn_layer_norm.*": f"{LAYERS}.attention_norm.*",
    "layers.*.final_layer_norm.*": f"{LAYERS}.ffn_norm.*",
    **{f"layers.*.mlp.{n}_proj.*": f"{LAYERS}.ffn.{n}_proj.*" for n in ("gate", "up", "down")},
    "norm.*": "final_norm.*",
}
"""Voxtral Realtime's encoder."""


def _by_type(vision: Mapped, usual: str) -> Weights:
    """The names of an encoder that is a family by itself, or Pixtral's, by the model_type of its part."""
    kind = vision.get("model_type", usual)
    family = family_of(kind) if kind != "pixtral" else None
    if kind == "pixtral":
        return PIXTRAL
    return family.weights if family is not None and isinstance(family.weights, Mapping) else {}


class TowerNames(NamedTuple):
    """How files of a class name its tower.

    encoder: where its tensors stand. names: those below it, or the usual model_type of its part.
    projector: of each step that has weights, in order. taps: the names of one of those, below its number.
    """

    encoder: str
    names: Weights | str
    projector: tuple[str, ...]
    taps: tuple[str, ...] = ()
    part: str = "vision_tower"

    def rules(self, whole: Mapped, tower: Mapped) -> Weights:
        """The rules of a file whose tower is read as this mapping."""
        vision = whole.get("vision_config")
        vision = vision if isinstance(vision, Mapping) else {}
        names = _by_type(vision, self.names) if isinstance(self.names, str) else self.names
        rules = {f"{self.encoder}.{name}": _placed(rule, self.part) for name, rule in names.items()}
        if f"{self.encoder}.{CONV}" in rules:
            patches = Parts((f"{FRONT}.patches.weight",), frames=vision.get("temporal_patch_size", 2))
            rules[f"{self.encoder}.{CONV}"] = _placed(patches, self.part)
        rules |= _steps(tower.get("projector", ()), f"{self.part}.projector", self.projector)
        for i, tap in enumerate(tower.get("taps", ())):
            below = tuple(f"{self.encoder}.deepstack_merger_list.{i}.{name}" for name in self.taps)
            rules |= _steps(tower["tap_projector"], f"{self.part}.tap{tap}", below)
        if tower.get("newline"):
            rules["[model.]image_newline"] = f"{self.part}.newline.weight"
        return rules


def _placed(rule: Rule, part: str) -> Rule:
    """The rule with the names of a tower before ours."""
    if isinstance(rule, Auxiliary):
        return rule
    parts = parts_of(rule)
    return replace(parts, ours=tuple(f"{part}.tower.{name}" for name in parts.ours))


def _steps(steps: Sequence[Mapped], ours: str, theirs: Sequence[str]) -> Iterator[tuple[str, Rule]]:
    """The names of the steps that have weights, in order; a matrix that is no layer is [in, out]."""
    weighted = [(i, step["kind"]) for i, step in enumerate(steps) if step["kind"] in WEIGHTED]
    for (i, kind), name in zip(weighted, theirs, strict=True):
        if name.endswith("merging_layer"):
            merge = next(step["block"] for step in steps if step["kind"] == "merge")
            patches = prod(bare(side) for side in merge)
            yield f"{name}.weight", Parts((f"{ours}.{i}.{kind}.weight",), blocks=patches)
        elif name.endswith("_weight"):
            yield name, Parts((f"{ours}.{i}.{kind}.weight",), transposed=True)
        else:
            yield f"{name}.*", f"{ours}.{i}.{kind}.*"


def _siglip() -> Weights:
    """SigLIP's names without the prefix of its own."""
    names = _by_type({}, "siglip_vision_model")
    return {name.removeprefix("[vision_model.]"): rule for name, rule in names.items()}


def _outside(*names: str) -> tuple[str, ...]:
    """Names of a projector outside of its tower, `multi_modal_projector`."""
    return tuple(f"[model.]multi_modal_projector.{name}" for name in names)


def _merger(*names: str) -> tuple[str, ...]:
    """Names of a projector within its tower, `visual.merger`."""
    return tuple(f"[model.]visual.merger.{name}" for name in names)


VISION, VISUAL, AUDIO = "[model.]vision_tower", "[model.]visual", "[model.]audio_tower"
MERGED = ("norm", "linear_fc1", "linear_fc2")
LLAVA = TowerNames(VISION, "clip_vision_model", _outside("linear_1", "linear_2"))
QWEN2 = TowerNames(VISUAL, BLOCKS, _merger("ln_q", "mlp.0", "mlp.2"))
QWEN3 = TowerNames(VISUAL, BLOCKS, _merger(*MERGED), MERGED)
MISTRAL3 = TowerNames(VISION, PIXTRAL, _outside("norm", "patch_merger.merging_layer", "linear_1", "linear_2"))
GEMMA3 = TowerNames(VISION, "siglip_vision_model", _outside("mm_soft_emb_norm", "mm_input_projection_weight"))
PALIGEMMA = TowerNames(VISION, "siglip_vision_model", _outside("linear"))
FUYU = TowerNames("[model.]vision_embed_tokens", {"*": f"{FRONT}.patches.*"}, ())
INTERNVL = TowerNames(VISION, INTERN_VIT, _outside("layer_norm", "linear_1", "linear_2"))
QWEN2_AUDIO = TowerNames(AUDIO, WHISPER, _outside("linear"), part="audio_tower")
VOXTRAL = TowerNames(AUDIO, WHISPER, _outside("linear_1", "linear_2"), part="audio_tower")
VOXTRAL_REALTIME = TowerNames(AUDIO, STREAMED, _outside("linear_1", "linear_2"), part="audio_tower")
TILED: Weights = {
    "class_embedding": f"{FRONT}.class_token.weight",
    "patch_embedding.weight": f"{FRONT}.patches.weight",
    "gated_positional_embedding.embedding": f"{FRONT}.positions.weight",
    "gated_positional_embedding.tile_embedding.weight": f"{FRONT}.positions.tiles",
    "gated_positional_embedding.gate": f"{FRONT}.positions.gate",
    "pre_tile_positional_embedding.embedding.weight": f"{FRONT}.tile_embedding.weight",
    "pre_tile_positional_embedding.gate": f"{FRONT}.tile_embedding.gate",
    "layernorm_pre.*": f"{FRONT}.norm.*",
}
"""Llama 3.2 Vision, before its layers."""
GATED: Weights = {
    **{f"self_attn.{n}_proj.weight": f"attention.{n}_proj.weight" for n in "qkvo"},
    "input_layernorm.*": "attention_norm.*",
    "post_attention_layernorm.*": "ffn_norm.*",
    "mlp.fc1.*": "ffn.up_proj.*",
    "mlp.fc2.*": "ffn.down_proj.*",
    "gate_attn": "attention_gate.gate",
    "gate_ffn": "ffn_gate.gate",
}
"""A layer of it; local ones have no gates."""


def _tiled(groups: Sequence[Mapped]) -> Weights:
    """The names of Llama 3.2 Vision's encoder: local layers, one that adds vectors of tiles, gated layers."""
    local, gated = (bare(groups[i]["n_layers"]) for i in (0, -1))
    between = f"layers.{local}"
    names = {
        **TILED,
        "layernorm_post.*": f"{between}.norm.*",
        "post_tile_positional_embedding.embedding.weight": f"{between}.tile_embedding.weight",
        "post_tile_positional_embedding.gate": f"{between}.tile_embedding.gate",
    }
    for stack, first, number in (("transformer", 0, local), ("global_transformer", local + 1, gated)):
        for i in range(number):
            for theirs, ours in GATED.items():
                names[f"{stack}.layers.{i}.{theirs}"] = f"layers.{first + i}.{ours}"
    return names


def mllama(tower: Mapped) -> TowerNames:
    """Llama 3.2 Vision, whose names depend on how many layers are local."""
    encoder = _tiled(tower["model"]["groups"])
    return TowerNames("[model.]vision_model", encoder, ("[model.]multi_modal_projector",))


def connected(_: Mapped) -> TowerNames:
    """SigLIP's encoder beside a connector."""
    return TowerNames("[model.]vision_model", _siglip(), ("[model.]connector.modality_projection.proj",))


def tower_names(rows: Sequence[TowerRow], whole: Mapped, towers: Sequence[Mapped]) -> Weights | None:
    """The names of the tensors of a file's one tower; None where they are not known, or there are more."""
    if len(towers) != 1 or not rows[0].names:
        return None
    names: TowerNames | Callable[[Mapped], TowerNames] = globals()[rows[0].names]
    return (names if isinstance(names, TowerNames) else names(towers[0])).rules(whole, towers[0])
