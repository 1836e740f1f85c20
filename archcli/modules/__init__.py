"""The core module library: what architectures are made of.

A class's fields are its YAML keys; its `forward` is stated once, in ops.

A name is imported when it is first asked for: a model loads the files of what it is made of and no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archcli.lazy import lazy

if TYPE_CHECKING:  # the types of the names below
    from archcli.modules.adapters.lora import *
    from archcli.modules.attention.base import *
    from archcli.modules.attention.convolved import *
    from archcli.modules.attention.cross import *
    from archcli.modules.attention.gates import *
    from archcli.modules.attention.grouped import *
    from archcli.modules.attention.indexer import *
    from archcli.modules.attention.latent import *
    from archcli.modules.attention.linear import *
    from archcli.modules.attention.mixer import *
    from archcli.modules.attention.sparsity import *
    from archcli.modules.blocks.block import *
    from archcli.modules.blocks.bottleneck import *
    from archcli.modules.blocks.carried import *
    from archcli.modules.blocks.conformer import *
    from archcli.modules.blocks.contexts import *
    from archcli.modules.blocks.crossed import *
    from archcli.modules.blocks.grid import *
    from archcli.modules.blocks.repeated import *
    from archcli.modules.blocks.shortcut import *
    from archcli.modules.blocks.streams import *
    from archcli.modules.blocks.windows import *
    from archcli.modules.blocks.wirings import *
    from archcli.modules.compressed.attention import *
    from archcli.modules.compressed.block_sums import *
    from archcli.modules.compressed.compressor import *
    from archcli.modules.ends.embedding import *
    from archcli.modules.ends.frontend import *
    from archcli.modules.ends.loss import *
    from archcli.modules.ends.mtp import *
    from archcli.modules.ends.patches import *
    from archcli.modules.ends.pooling import *
    from archcli.modules.ends.projectors import *
    from archcli.modules.ends.sampled_heads import *
    from archcli.modules.ends.sounds import *
    from archcli.modules.ends.spectrograms import *
    from archcli.modules.images.canvases import *
    from archcli.modules.images.convolved import *
    from archcli.modules.images.pyramids import *
    from archcli.modules.images.sizings import *
    from archcli.modules.images.stems import *
    from archcli.modules.images.tilings import *
    from archcli.modules.models.decoder import *
    from archcli.modules.models.encoder import *
    from archcli.modules.models.encoder_decoder import *
    from archcli.modules.models.media_encoder import *
    from archcli.modules.models.model import *
    from archcli.modules.models.resamplers import *
    from archcli.modules.models.stack import *
    from archcli.modules.models.text_tower import *
    from archcli.modules.models.tower import *
    from archcli.modules.models.videos import *
    from archcli.modules.networks.activation import *
    from archcli.modules.networks.convolved import *
    from archcli.modules.networks.experts import *
    from archcli.modules.networks.ffn import *
    from archcli.modules.networks.grid_norms import *
    from archcli.modules.networks.grid_steps import *
    from archcli.modules.networks.ngrams import *
    from archcli.modules.networks.norm import *
    from archcli.modules.networks.per_layer import *
    from archcli.modules.positions.grid import *
    from archcli.modules.positions.position import *
    from archcli.modules.positions.relative import *
    from archcli.modules.positions.rope_scaling import *
    from archcli.modules.recurrent.base import *
    from archcli.modules.recurrent.delta_net import *
    from archcli.modules.recurrent.gated_norm import *
    from archcli.modules.recurrent.mamba import *
    from archcli.modules.recurrent.rg_lru import *
    from archcli.modules.recurrent.rwkv import *
    from archcli.modules.recurrent.short_conv import *
    from archcli.modules.spec.base import *
    from archcli.modules.spec.context import *
    from archcli.modules.spec.fields import *
    from archcli.modules.stored.formats import Packing as Packing
    from archcli.modules.stored.quantization import *

HOMES = {
    ".blocks.streams": ["AltUp", "HyperConnected", "LowRankHyperConnected", "StreamBlock"],
    ".networks.activation": [
        "GELU",
        "Activation",
        "GELUTanh",
        "HardSigmoid",
        "HardSwish",
        "ReLU",
        "ReLU6",
        "Sigmoid",
        "SiLU",
        "Softplus",
        "SquaredReLU",
        "Swish",
        "Tanh",
        "XIELU",
    ],
    ".attention.base": ["Attention", "IndexedAttention", "LengthTemperature", "SoftmaxAttention"],
    ".attention.convolved": ["CompressedAttention", "ConvolvedAttention"],
    ".attention.cross": ["CrossAttention", "MergedAttention"],
    ".compressed.attention": ["BlockwiseAttention"],
    ".compressed.block_sums": ["TokenAndBlockBuckets", "TransientGlobalAttention"],
    ".compressed.compressor": ["BlockCompressor", "BlockIndexer"],
    ".attention.differential": ["DifferentialAttention"],
    ".attention.gates": ["OutputGate", "ValueGate"],
    ".attention.disentangled": ["DisentangledAttention", "RelativeAttention", "RelativeTable"],
    ".attention.grouped": [
        "GroupedQueryAttention",
        "MultiHeadAttention",
        "MultiQueryAttention",
        "ProjectedAttention",
        "ProjectedHeads",
    ],
    ".attention.linear": ["LinearAttention"],
    ".attention.indexer": [
        "Indexer",
        "KeyBlockIndexer",
        "KeyIndex",
        "KeyPoolIndexer",
        "MeanPoolIndexer",
        "PoolIndex",
    ],
    ".attention.latent": ["MultiHeadLatentAttention"],
    ".blocks.crossed": ["GatedPreNorm", "PerceiverBlock", "TileEmbedding"],
    ".blocks.windows": ["AxisAttention", "ChannelAttention", "GridWindowAttention", "PatchWindowAttention"],
    ".blocks.conformer": ["ConformerBlock", "LightConvolution"],
    ".blocks.contexts": ["BlockContextAttention", "GatedBiasAttention"],
    ".images.pyramids": ["ConvolvedGridNetwork", "PoolMixer", "ReducedGridAttention"],
    ".networks.grid_norms": ["GlobalResponseNorm", "GroupNorm"],
    ".networks.grid_steps": [
        "ConvolutionStep",
        "GridStep",
        "MeanStep",
        "NormalizedStep",
        "PaddedStep",
        "PooledStep",
        "SqueezeStep",
    ],
    ".networks.grid_joins": ["DenseStep", "FillStep", "JoinedStep", "PlacedStep", "SequenceStep"],
    ".images.focal": ["FocalModulation"],
    ".images.mergers": ["FramedStep", "JoinTilesStep", "RowEndsStep", "StepsBlock", "WindowMergerStep"],
    ".images.sequences": ["GridSequence"],
    ".images.additive": ["AdditiveAttention"],
    ".images.cosine_windows": ["CosineWindowAttention"],
    ".images.levit": ["DistanceAttention", "NormedNetwork", "UnnormedBlock"],
    ".images.pixels": ["FusedBlock", "PixelAttention", "SeparableAttention"],
    ".images.stems": ["ConvolvedImage", "VideoPatches"],
    ".attention.mixture": ["ExpertProjection", "MixtureOfHeads"],
    ".spec.base": ["Inline", "Module", "children", "find", "settings", "substitute"],
    ".networks.norm": [
        "BatchNorm",
        "LayerNorm",
        "Norm",
        "PrescaledRMSNorm",
        "QKNorm",
        "RMSNorm",
        "SelfGatedRMSNorm",
    ],
    ".blocks.bottleneck": ["AffineNorm", "BottleneckAttention", "BottleneckBlock"],
    ".blocks.block": ["Block", "PostNorm", "PreNorm"],
    ".blocks.carried": ["CarriedExperts", "CarriedRouting"],
    ".spec.context": ["Context", "LayerCache"],
    ".networks.convolved": ["ConvolvedNetwork"],
    ".networks.ngrams": ["NGramStreams"],
    ".networks.ffn": ["GLU", "MLP", "FeedForward"],
    ".ends.embedding": [
        "Embedding",
        "Head",
        "JoinedTable",
        "LogitHead",
        "MaskedHead",
        "TransformedHead",
        "OutputHead",
    ],
    ".models.encoder_decoder": ["DecoderStack", "EncoderDecoder", "EncoderStack"],
    ".spec.fields": ["Inherit"],
    ".attention.mixer": ["FourierMixer", "Mixer", "MixerFacts", "ParallelMixer"],
    ".ends.frontend": ["ConvFrontEnd"],
    ".ends.patches": ["FrontEnd", "PatchEmbedding", "Patched", "TiledPatches"],
    ".ends.sounds": ["ConvolvedSpectrogram", "ConvolvedWave", "SpectrogramPatches"],
    ".ends.waves": ["WavePyramid"],
    ".ends.spectrograms": [
        "CausalSpectrogram",
        "ChunkedSpectrogram",
        "PlainFrames",
        "ProjectedFrames",
        "SubsampledSpectrogram",
    ],
    ".ends.pooling": [
        "AttentionPooling",
        "BesidePooling",
        "FirstAndMean",
        "FirstToken",
        "FirstTwo",
        "MeanToken",
        "Pooling",
    ],
    ".models.media_encoder": ["MediaEncoder"],
    ".models.text_tower": ["CausalTextTower", "TextTower"],
    ".models.tower": ["Tower"],
    ".models.videos": ["EachFrame", "PatchedFrames", "VideoSizing"],
    ".ends.projectors": [
        "ActivationStep",
        "ConvolveStep",
        "DropStep",
        "LinearStep",
        "MergeStep",
        "NetworkStep",
        "NormStep",
        "PoolStep",
        "ProjectorStep",
        "RepeatStep",
        "QueryWindowsStep",
    ],
    ".models.resamplers": [
        "AttentionPoolStep",
        "GatedStep",
        "GridTablesStep",
        "KeepStep",
        "LatentsStep",
        "LayersStep",
        "MeanFirstStep",
        "QueriesStep",
        "ReadingStep",
        "TableStep",
    ],
    ".images.sizings": [
        "CanvasTiles",
        "ExactMultiple",
        "FixedSize",
        "ImageSizing",
        "LargestMultiple",
        "LongestSide",
        "NearestMultiple",
        "PinnedTiles",
        "SplitLongest",
    ],
    ".images.convolved": ["GridConvolution"],
    ".images.canvases": ["CoveringTiles", "PaddedGrid", "TokenBudget"],
    ".images.tilings": [
        "BetweenSides",
        "UnknownSizing",
        "CroppedTiles",
        "GridBudget",
        "PatchBudget",
        "PatchRange",
        "SlicedSquares",
        "TilesBeyond",
        "WindowTiles",
        "WithinBounds",
    ],
    ".ends.sampled_heads": ["AdaptiveHead", "HierarchicalHead", "SampledHead"],
    ".adapters.lora": ["LoRA"],
    ".adapters.rule": ["AdapterRule"],
    ".ends.loss": ["CrossEntropy", "Loss"],
    ".models.decoder": ["Decoder", "Generator"],
    ".models.encoder": ["Encoder"],
    ".models.model": ["Model", "Training"],
    ".networks.experts": ["MixtureOfExperts", "Router", "SharedSinkExperts"],
    ".ends.mtp": ["MultiTokenPrediction"],
    ".blocks.wirings": [
        "ResidualPostNorm",
        "NormedStream",
        "Parallel",
        "DoubleNorm",
        "Sandwich",
        "TimedPreNorm",
    ],
    ".blocks.grid": [
        "Convolutions",
        "ConvolvedBlock",
        "ConvolvedPreNorm",
        "Coarser",
        "Downsample",
        "PatchMerging",
    ],
    ".networks.per_layer": ["PerLayerEmbedding"],
    ".positions.grid": ["GridDifferences", "GridRope", "PaddedTiles", "SharedGridDifferences"],
    ".positions.position": ["ALiBi", "Learned", "NoPosition", "Position", "Rope", "Sinusoidal"],
    ".stored.formats": ["Packing"],
    ".stored.quantization": ["Format", "Quantization", "Rule"],
    ".recurrent.delta_net": ["DeltaRule", "GatedDeltaNet", "KimiDeltaAttention"],
    ".recurrent.gated_norm": ["GatedLayerNorm", "GatedNorm", "GatedRMSNorm"],
    ".recurrent.base": ["Recurrent"],
    ".recurrent.mamba": ["Mamba2", "Mamba"],
    ".recurrent.short_conv": ["ShortConvolution"],
    ".recurrent.rg_lru": ["RGLRU"],
    ".recurrent.decaying": ["LightningAttention", "Retention"],
    ".recurrent.mlstm": ["MLSTM"],
    ".recurrent.rwkv": ["RWKV4", "RWKVChannelMix"],
    ".positions.relative": [
        "DistanceBias",
        "LayerBuckets",
        "RelativeBuckets",
        "RelativeKey",
        "RelativeVector",
        "ScoreBias",
    ],
    ".blocks.repeated": ["ConcatBlock", "SharedLayer"],
    ".positions.rope_scaling": [
        "DynamicNTKScaling",
        "LinearScaling",
        "Llama3Scaling",
        "LongRopeScaling",
        "NoScaling",
        "NTKScaling",
        "ProportionalScaling",
        "RopeScaling",
        "YarnScaling",
    ],
    ".blocks.shortcut": ["ShortcutMoE"],
    ".attention.sparsity": [
        "BlockSparsePattern",
        "CentredPattern",
        "DilatedWindow",
        "FixedPattern",
        "Sparsity",
        "StridedPattern",
        "WindowedGlobal",
    ],
    ".models.stack": ["Group", "Stack"],
}
"""The public names, by the file that defines them."""

__getattr__, __dir__ = lazy(__name__, HOMES)
__all__ = [name for names in HOMES.values() for name in names]
