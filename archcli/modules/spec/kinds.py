"""The table from (family, `kind`) to class, such as norm, rmsnorm; read without importing.

The library's kinds stand in a table. Others enter by two doors: `register` in Python, and the entry-point
group `archcli.kinds` of an installed distribution, which is read only where the table lacks a kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from archcli.errors import ArchError, quote
from archcli.modules.spec.base import Spec
from archcli.modules.spec.calls import checked

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "archcli.kinds"
"""The entry-point group: `kind = "package.module:Class"`."""

TABLE: dict[str, dict[str, str]] = {
    "activation": {
        "relu": "archcli.modules.networks.activation:ReLU",
        "relu2": "archcli.modules.networks.activation:SquaredReLU",
        "relu6": "archcli.modules.networks.activation:ReLU6",
        "gelu": "archcli.modules.networks.activation:GELU",
        "gelu_tanh": "archcli.modules.networks.activation:GELUTanh",
        "silu": "archcli.modules.networks.activation:SiLU",
        "sigmoid": "archcli.modules.networks.activation:Sigmoid",
        "hard_sigmoid": "archcli.modules.networks.activation:HardSigmoid",
        "hard_swish": "archcli.modules.networks.activation:HardSwish",
        "softplus": "archcli.modules.networks.activation:Softplus",
        "tanh": "archcli.modules.networks.activation:Tanh",
        "swish": "archcli.modules.networks.activation:Swish",
        "xielu": "archcli.modules.networks.activation:XIELU",
    },
    "attention": {
        "mha": "archcli.modules.attention.grouped:MultiHeadAttention",
        "reduced_grid": "archcli.modules.images.pyramids:ReducedGridAttention",
        "grid_pool": "archcli.modules.images.pyramids:PoolMixer",
        "grid_pixels": "archcli.modules.images.pixels:PixelAttention",
        "separable": "archcli.modules.images.pixels:SeparableAttention",
        "cosine_window": "archcli.modules.images.cosine_windows:CosineWindowAttention",
        "additive": "archcli.modules.images.additive:AdditiveAttention",
        "grid_distances": "archcli.modules.images.levit:DistanceAttention",
        "focal": "archcli.modules.images.focal:FocalModulation",
        "mqa": "archcli.modules.attention.grouped:MultiQueryAttention",
        "gqa": "archcli.modules.attention.grouped:GroupedQueryAttention",
        "disentangled": "archcli.modules.attention.disentangled:DisentangledAttention",
        "transformer_xl": "archcli.modules.attention.disentangled:RelativeAttention",
        "transient_global": "archcli.modules.compressed.block_sums:TransientGlobalAttention",
        "merged": "archcli.modules.attention.cross:MergedAttention",
        "mla": "archcli.modules.attention.latent:MultiHeadLatentAttention",
        "fourier": "archcli.modules.attention.mixer:FourierMixer",
        "parallel": "archcli.modules.attention.mixer:ParallelMixer",
        "short_conv": "archcli.modules.recurrent.short_conv:ShortConvolution",
        "grid_conv": "archcli.modules.images.convolved:GridConvolution",
        "moa": "archcli.modules.attention.mixture:MixtureOfHeads",
        "linear": "archcli.modules.attention.linear:LinearAttention",
        "differential": "archcli.modules.attention.differential:DifferentialAttention",
        "gated_delta_net": "archcli.modules.recurrent.delta_net:GatedDeltaNet",
        "kda": "archcli.modules.recurrent.delta_net:KimiDeltaAttention",
        "mamba": "archcli.modules.recurrent.mamba:Mamba",
        "lightning": "archcli.modules.recurrent.decaying:LightningAttention",
        "mlstm": "archcli.modules.recurrent.mlstm:MLSTM",
        "retention": "archcli.modules.recurrent.decaying:Retention",
        "mamba2": "archcli.modules.recurrent.mamba:Mamba2",
        "rg_lru": "archcli.modules.recurrent.rg_lru:RGLRU",
        "rwkv4": "archcli.modules.recurrent.rwkv:RWKV4",
        "conv_gqa": "archcli.modules.attention.convolved:ConvolvedAttention",
        "compressed": "archcli.modules.compressed.attention:BlockwiseAttention",
        "cca": "archcli.modules.attention.convolved:CompressedAttention",
        "patch_window": "archcli.modules.blocks.windows:PatchWindowAttention",
        "grid_window": "archcli.modules.blocks.windows:GridWindowAttention",
        "channel": "archcli.modules.blocks.windows:ChannelAttention",
        "grid_axes": "archcli.modules.blocks.windows:AxisAttention",
        "block_context": "archcli.modules.blocks.contexts:BlockContextAttention",
        "gated_bias": "archcli.modules.blocks.contexts:GatedBiasAttention",
        "bottleneck": "archcli.modules.networks.bottleneck:BottleneckAttention",
    },
    "block": {
        "pre_norm": "archcli.modules.blocks.block:PreNorm",
        "post_norm": "archcli.modules.blocks.block:PostNorm",
        "timed_pre_norm": "archcli.modules.blocks.wirings:TimedPreNorm",
        "sandwich": "archcli.modules.blocks.wirings:Sandwich",
        "norm_after": "archcli.modules.blocks.wirings:ResidualPostNorm",
        "parallel": "archcli.modules.blocks.wirings:Parallel",
        "normed_stream": "archcli.modules.blocks.wirings:NormedStream",
        "altup": "archcli.modules.blocks.streams:AltUp",
        "shortcut_moe": "archcli.modules.blocks.shortcut:ShortcutMoE",
        "concat": "archcli.modules.blocks.repeated:ConcatBlock",
        "shared": "archcli.modules.blocks.repeated:SharedLayer",
        "hyper": "archcli.modules.blocks.streams:HyperConnected",
        "carried": "archcli.modules.networks.carried:CarriedRouting",
        "convolved": "archcli.modules.blocks.grid:ConvolvedBlock",
        "convolutions": "archcli.modules.blocks.grid:Convolutions",
        "downsample": "archcli.modules.blocks.grid:Downsample",
        "unnormed": "archcli.modules.images.levit:UnnormedBlock",
        "fused": "archcli.modules.images.pixels:FusedBlock",
        "steps": "archcli.modules.images.mergers:StepsBlock",
        "grid_sequence": "archcli.modules.images.sequences:GridSequence",
        "patch_merging": "archcli.modules.blocks.grid:PatchMerging",
        "convolved_pre_norm": "archcli.modules.blocks.grid:ConvolvedPreNorm",
        "perceiver": "archcli.modules.blocks.crossed:PerceiverBlock",
        "gated_pre_norm": "archcli.modules.blocks.crossed:GatedPreNorm",
        "tile_embedding": "archcli.modules.blocks.crossed:TileEmbedding",
        "conformer": "archcli.modules.blocks.conformer:ConformerBlock",
        "bottleneck": "archcli.modules.networks.bottleneck:BottleneckBlock",
    },
    "cross_attention": {"cross": "archcli.modules.attention.cross:CrossAttention"},
    "ffn": {
        "mlp": "archcli.modules.networks.ffn:MLP",
        "glu": "archcli.modules.networks.ffn:GLU",
        "moe": "archcli.modules.networks.experts:MixtureOfExperts",
        "rwkv_channel_mix": "archcli.modules.recurrent.rwkv:RWKVChannelMix",
        "shared_sink_moe": "archcli.modules.networks.experts:SharedSinkExperts",
        "convolved": "archcli.modules.networks.convolved:ConvolvedNetwork",
        "normed_mlp": "archcli.modules.images.levit:NormedNetwork",
        "convolved_grid": "archcli.modules.images.pyramids:ConvolvedGridNetwork",
        "carried_moe": "archcli.modules.networks.carried:CarriedExperts",
    },
    "front_end": {
        "patches": "archcli.modules.ends.patches:PatchEmbedding",
        "convolved_image": "archcli.modules.images.stems:ConvolvedImage",
        "video_patches": "archcli.modules.images.stems:VideoPatches",
        "tiled_patches": "archcli.modules.ends.patches:TiledPatches",
        "spectrogram_patches": "archcli.modules.ends.sounds:SpectrogramPatches",
        "convolved_spectrogram": "archcli.modules.ends.sounds:ConvolvedSpectrogram",
        "convolved_wave": "archcli.modules.ends.sounds:ConvolvedWave",
        "wave_pyramid": "archcli.modules.ends.waves:WavePyramid",
        "frames": "archcli.modules.ends.spectrograms:PlainFrames",
        "projected_frames": "archcli.modules.ends.spectrograms:ProjectedFrames",
        "causal_spectrogram": "archcli.modules.ends.spectrograms:CausalSpectrogram",
        "chunked_spectrogram": "archcli.modules.ends.spectrograms:ChunkedSpectrogram",
        "subsampled_spectrogram": "archcli.modules.ends.spectrograms:SubsampledSpectrogram",
    },
    "grid_step": {
        "conv": "archcli.modules.networks.grid_steps:ConvolutionStep",
        "norm": "archcli.modules.networks.grid_steps:NormalizedStep",
        "pool": "archcli.modules.networks.grid_steps:PooledStep",
        "mean": "archcli.modules.networks.grid_steps:MeanStep",
        "pad": "archcli.modules.networks.grid_steps:PaddedStep",
        "squeeze": "archcli.modules.networks.grid_steps:SqueezeStep",
        "sequence": "archcli.modules.networks.grid_joins:SequenceStep",
        "join": "archcli.modules.networks.grid_joins:JoinedStep",
        "dense": "archcli.modules.networks.grid_joins:DenseStep",
        "positions": "archcli.modules.networks.grid_joins:PlacedStep",
        "fill": "archcli.modules.networks.grid_joins:FillStep",
    },
    "gated_norm": {
        "rmsnorm": "archcli.modules.recurrent.gated_norm:GatedRMSNorm",
        "layernorm": "archcli.modules.recurrent.gated_norm:GatedLayerNorm",
    },
    "head": {
        "adaptive": "archcli.modules.ends.sampled_heads:AdaptiveHead",
        "hierarchical": "archcli.modules.ends.sampled_heads:HierarchicalHead",
        "sampled": "archcli.modules.ends.sampled_heads:SampledHead",
        "linear": "archcli.modules.ends.embedding:Head",
        "transformed": "archcli.modules.ends.embedding:TransformedHead",
    },
    "image_sizing": {
        "fixed": "archcli.modules.images.sizings:FixedSize",
        "exact": "archcli.modules.images.sizings:ExactMultiple",
        "multiple": "archcli.modules.images.sizings:NearestMultiple",
        "longest": "archcli.modules.images.sizings:LongestSide",
        "canvas": "archcli.modules.images.sizings:CanvasTiles",
        "pinned": "archcli.modules.images.sizings:PinnedTiles",
        "split": "archcli.modules.images.sizings:SplitLongest",
        "between": "archcli.modules.images.tilings:BetweenSides",
        "within": "archcli.modules.images.tilings:WithinBounds",
        "unknown": "archcli.modules.images.tilings:UnknownSizing",
        "tiles_beyond": "archcli.modules.images.tilings:TilesBeyond",
        "windows": "archcli.modules.images.tilings:WindowTiles",
        "slices": "archcli.modules.images.tilings:SlicedSquares",
        "patch_budget": "archcli.modules.images.tilings:PatchBudget",
        "patch_range": "archcli.modules.images.tilings:PatchRange",
        "grid_budget": "archcli.modules.images.tilings:GridBudget",
        "crops": "archcli.modules.images.tilings:CroppedTiles",
        "largest": "archcli.modules.images.sizings:LargestMultiple",
    },
    "index": {
        "tokens": "archcli.modules.attention.indexer:Indexer",
        "blocks": "archcli.modules.attention.indexer:KeyBlockIndexer",
    },
    "loss": {"cross_entropy": "archcli.modules.ends.loss:CrossEntropy"},
    "model": {
        "decoder": "archcli.modules.models.decoder:Decoder",
        "encoder": "archcli.modules.models.encoder:Encoder",
        "encoder_decoder": "archcli.modules.models.encoder_decoder:EncoderDecoder",
        "media_encoder": "archcli.modules.models.media_encoder:MediaEncoder",
        "text_tower": "archcli.modules.models.text_tower:TextTower",
        "causal_text_tower": "archcli.modules.models.text_tower:CausalTextTower",
    },
    "norm": {
        "rmsnorm": "archcli.modules.networks.norm:RMSNorm",
        "layernorm": "archcli.modules.networks.norm:LayerNorm",
        "batchnorm": "archcli.modules.networks.norm:BatchNorm",
        "groupnorm": "archcli.modules.networks.grid_norms:GroupNorm",
        "global_response": "archcli.modules.networks.grid_norms:GlobalResponseNorm",
        "self_gated": "archcli.modules.networks.norm:SelfGatedRMSNorm",
        "prescaled_rmsnorm": "archcli.modules.networks.norm:PrescaledRMSNorm",
        "affine": "archcli.modules.networks.bottleneck:AffineNorm",
    },
    "pooling": {
        "first": "archcli.modules.ends.pooling:FirstToken",
        "first_two": "archcli.modules.ends.pooling:FirstTwo",
        "mean": "archcli.modules.ends.pooling:MeanToken",
        "first_and_mean": "archcli.modules.ends.pooling:FirstAndMean",
        "beside": "archcli.modules.ends.pooling:BesidePooling",
        "attention": "archcli.modules.ends.pooling:AttentionPooling",
    },
    "position": {
        "none": "archcli.modules.positions.position:NoPosition",
        "learned": "archcli.modules.positions.position:Learned",
        "sinusoidal": "archcli.modules.positions.position:Sinusoidal",
        "alibi": "archcli.modules.positions.position:ALiBi",
        "shaw": "archcli.modules.positions.relative:RelativeKey",
        "buckets": "archcli.modules.positions.relative:LayerBuckets",
        "relative_vector": "archcli.modules.positions.relative:RelativeVector",
        "rope": "archcli.modules.positions.position:Rope",
        "grid_rope": "archcli.modules.positions.grid:GridRope",
        "grid_bias": "archcli.modules.positions.grid:GridDifferences",
    },
    "projector_step": {
        "linear": "archcli.modules.ends.projectors:LinearStep",
        "activation": "archcli.modules.ends.projectors:ActivationStep",
        "norm": "archcli.modules.ends.projectors:NormStep",
        "network": "archcli.modules.ends.projectors:NetworkStep",
        "convolve": "archcli.modules.ends.projectors:ConvolveStep",
        "join_tiles": "archcli.modules.images.joined:JoinTilesStep",
        "repeat": "archcli.modules.ends.projectors:RepeatStep",
        "merge": "archcli.modules.ends.projectors:MergeStep",
        "pool": "archcli.modules.ends.projectors:PoolStep",
        "drop": "archcli.modules.ends.projectors:DropStep",
        "queries": "archcli.modules.ends.resamplers:QueriesStep",
        "reading": "archcli.modules.ends.resamplers:ReadingStep",
        "latents": "archcli.modules.ends.resamplers:LatentsStep",
        "table": "archcli.modules.ends.resamplers:TableStep",
        "attention_pool": "archcli.modules.ends.resamplers:AttentionPoolStep",
        "gated": "archcli.modules.ends.resamplers:GatedStep",
        "layers": "archcli.modules.ends.resamplers:LayersStep",
        "keep": "archcli.modules.ends.resamplers:KeepStep",
        "grid_tables": "archcli.modules.ends.resamplers:GridTablesStep",
        "mean_first": "archcli.modules.ends.resamplers:MeanFirstStep",
        "window_merger": "archcli.modules.images.mergers:WindowMergerStep",
        "query_windows": "archcli.modules.ends.projectors:QueryWindowsStep",
    },
    "rope_scaling": {
        "none": "archcli.modules.positions.rope_scaling:NoScaling",
        "linear": "archcli.modules.positions.rope_scaling:LinearScaling",
        "ntk": "archcli.modules.positions.rope_scaling:NTKScaling",
        "dynamic_ntk": "archcli.modules.positions.rope_scaling:DynamicNTKScaling",
        "llama3": "archcli.modules.positions.rope_scaling:Llama3Scaling",
        "yarn": "archcli.modules.positions.rope_scaling:YarnScaling",
        "longrope": "archcli.modules.positions.rope_scaling:LongRopeScaling",
        "proportional": "archcli.modules.positions.rope_scaling:ProportionalScaling",
    },
    "score_bias": {
        "buckets": "archcli.modules.positions.relative:RelativeBuckets",
        "distances": "archcli.modules.positions.relative:DistanceBias",
        "token_and_block_buckets": "archcli.modules.compressed.block_sums:TokenAndBlockBuckets",
        "grid_bias": "archcli.modules.positions.grid:SharedGridDifferences",
        "padded_tiles": "archcli.modules.positions.grid:PaddedTiles",
    },
    "sparsity": {
        "dilated": "archcli.modules.attention.sparsity:DilatedWindow",
        "strided": "archcli.modules.attention.sparsity:StridedPattern",
        "fixed": "archcli.modules.attention.sparsity:FixedPattern",
        "longformer": "archcli.modules.attention.sparsity:WindowedGlobal",
        "centred": "archcli.modules.attention.sparsity:CentredPattern",
        "block_sparse": "archcli.modules.attention.sparsity:BlockSparsePattern",
    },
    "video_sizing": {
        "frames": "archcli.modules.models.videos:EachFrame",
        "patched": "archcli.modules.models.videos:PatchedFrames",
    },
}
"""The library's own kinds by family, in the order in which messages list them."""

IMPLIED: dict[str, dict[str, str]] = {"block": {"use": "shared"}}
"""By family, keys that imply a kind where none is stated: a block with `use` is of kind shared."""

KIND = re.compile(r"[A-Za-z]\w*", re.ASCII)
PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

registered: dict[str, str] = {}
"""Classes entered by `register`, as module:Class, by kind."""


@checked
def register(kind: str, place: str) -> None:
    """Let YAML files name your class by its kind: `register("mamba", "my_package.mamba:Mamba")`.

    An installed distribution does so by an entry point of `archcli.kinds`. The class is imported when a file
    first names it. ArchError if the kind is taken.
    """
    if not KIND.fullmatch(kind):
        raise ArchError(f"{quote(kind)} is no name of a kind", "write letters, digits and _")
    if not PLACE.fullmatch(place):
        raise ArchError(f"{quote(place)} is no place of a class", "write my_package.module:Class")
    if registered.setdefault(kind, place) != place:
        raise ArchError(f"kind {kind!r} is registered as {registered[kind]} already", "give it another name")
    # a kind of the library may be free in another family, which only the class itself states
    if any(kind in names for names in TABLE.values()):
        try:
            _outsider(kind)
        except ArchError:
            del registered[kind]
            raise


def find(family: str, kind: str) -> type[Spec] | None:
    """The class for a kind of a family, or None. Imports only that class."""
    if (place := TABLE.get(family, {}).get(kind)) is not None:
        return _imported(place)
    cls = _outsider(kind) if kind else None
    return cls if cls is not None and cls.family == family else None


def kinds(family: str) -> dict[str, type[Spec]]:
    """Every class of a family by kind, the library's first.

    Imports them all, and all registered or installed ones.
    """
    classes = {kind: _imported(place) for kind, place in TABLE.get(family, {}).items()}
    for kind in dict.fromkeys([*registered, *(entry.name for entry in _installed())]):
        if (cls := _outsider(kind)) is not None and cls.family == family:
            classes[kind] = cls
    return classes


@cache
def _installed() -> tuple[EntryPoint, ...]:
    """The entry points of all installed distributions."""
    from importlib.metadata import entry_points  # some 10 ms, needed where a kind is nobody's

    return tuple(entry_points(group=GROUP))


def _outsider(kind: str) -> type[Spec] | None:
    """The class registered for a kind, or offered by an installed distribution; else None."""
    if not (claims := list(_claims(kind))):
        return None
    if len(claims) > 1:
        raise ArchError(
            f"kind {kind!r} is claimed by {' and by '.join(claimant for claimant, _ in claims)}",
            "uninstall one of them",
        )
    [(claimant, place)] = claims
    return _conforming(kind, claimant, place)


def _claims(kind: str) -> Iterator[tuple[str, str]]:
    """(source, "module:Class") of every registration or installed entry point for a kind."""
    if kind in registered:
        yield "archcli.register", registered[kind]
    for entry in _installed():
        if entry.name == kind:
            yield f"the distribution {entry.dist.name if entry.dist else '?'}", entry.value


@cache
def _conforming(kind: str, claimant: str, place: str) -> type[Spec]:
    """Import the class at `place`; it must be a Spec with that kind, and the kind must be free."""
    try:
        cls = _imported(place)
        reason = _unfit(cls, kind)
    except Exception as error:  # noqa: BLE001  # an outsider's code may raise anything
        reason = f"{type(error).__name__}: {error}"
    if reason:
        raise ArchError(f"kind {kind!r} of {claimant} ({place}) cannot be used: {reason}")
    return cls


def _unfit(cls: Any, kind: str) -> str:
    """The reason why a class cannot be registered for a kind; empty where it can."""
    if not (isinstance(cls, type) and issubclass(cls, Spec) and cls.family):
        return "it is no module that belongs to a family"
    if kind_of(cls) != kind:
        return f"the class says kind {kind_of(cls)!r}"
    if kind in TABLE.get(cls.family, {}):
        return f"{cls.family} has that kind already"
    for field in cls.fields.values():
        _ = field.type  # reads the annotation, which nobody may have done yet
    return ""


def kind_of(cls: Any) -> str:
    """The `kind` of a class or a module that has one, else an empty text."""
    kind = getattr(cls, "kind", "")
    return kind if isinstance(kind, str) else ""


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
