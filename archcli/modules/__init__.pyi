"""What `archcli.modules` has, for type checkers and editors; made with listing.json."""

from archcli.modules.adapters.adapted import Adapted as Adapted
from archcli.modules.adapters.lora import AdaptTape as AdaptTape, LoRA as LoRA, OpAdapter as OpAdapter
from archcli.modules.adapters.rule import AdapterRule as AdapterRule
from archcli.modules.adapters.shared_block import AdapterTape as AdapterTape
from archcli.modules.attention.base import Attention as Attention, IndexedAttention as IndexedAttention, LengthTemperature as LengthTemperature, SoftmaxAttention as SoftmaxAttention
from archcli.modules.attention.convolved import CompressedAttention as CompressedAttention, ConvolvedAttention as ConvolvedAttention
from archcli.modules.attention.cross import CrossAttention as CrossAttention, MergedAttention as MergedAttention
from archcli.modules.attention.differential import DifferentialAttention as DifferentialAttention
from archcli.modules.attention.disentangled import DisentangledAttention as DisentangledAttention, RelativeAttention as RelativeAttention, RelativeTable as RelativeTable
from archcli.modules.attention.gates import OutputGate as OutputGate, ValueGate as ValueGate
from archcli.modules.attention.grouped import GroupedQueryAttention as GroupedQueryAttention, MultiHeadAttention as MultiHeadAttention, MultiQueryAttention as MultiQueryAttention, ProjectedAttention as ProjectedAttention, ProjectedHeads as ProjectedHeads
from archcli.modules.attention.indexer import Indexer as Indexer, KeyBlockIndexer as KeyBlockIndexer, KeyIndex as KeyIndex, KeyPoolIndexer as KeyPoolIndexer, MeanPoolIndexer as MeanPoolIndexer, PoolIndex as PoolIndex
from archcli.modules.attention.latent import MultiHeadLatentAttention as MultiHeadLatentAttention
from archcli.modules.attention.linear import LinearAttention as LinearAttention
from archcli.modules.attention.mixer import FourierMixer as FourierMixer, Mixer as Mixer, MixerFacts as MixerFacts, ParallelMixer as ParallelMixer, RecurrenceFacts as RecurrenceFacts
from archcli.modules.attention.mixture import ExpertProjection as ExpertProjection, MixtureOfHeads as MixtureOfHeads
from archcli.modules.attention.sparsity import BlockSparsePattern as BlockSparsePattern, CentredPattern as CentredPattern, DilatedWindow as DilatedWindow, FixedPattern as FixedPattern, Sparsity as Sparsity, StridedPattern as StridedPattern, WindowedGlobal as WindowedGlobal
from archcli.modules.blocks.block import Block as Block, PostNorm as PostNorm, PreNorm as PreNorm, SerialBlock as SerialBlock
from archcli.modules.blocks.bottleneck import AffineNorm as AffineNorm, BottleneckAttention as BottleneckAttention, BottleneckBlock as BottleneckBlock
from archcli.modules.blocks.carried import CarriedExperts as CarriedExperts, CarriedRouting as CarriedRouting
from archcli.modules.blocks.repeated import ConcatBlock as ConcatBlock, SharedLayer as SharedLayer
from archcli.modules.blocks.reused_keys import LentEntries as LentEntries
from archcli.modules.blocks.shortcut import ShortcutMoE as ShortcutMoE, Sublayer as Sublayer
from archcli.modules.blocks.streams import AltUp as AltUp, HyperConnected as HyperConnected, LowRankHyperConnected as LowRankHyperConnected, StreamBlock as StreamBlock
from archcli.modules.blocks.wirings import DoubleNorm as DoubleNorm, NormedStream as NormedStream, Parallel as Parallel, ResidualPostNorm as ResidualPostNorm, Sandwich as Sandwich, TimedPreNorm as TimedPreNorm
from archcli.modules.compressed.attention import BlockwiseAttention as BlockwiseAttention
from archcli.modules.compressed.block_sums import TokenAndBlockBuckets as TokenAndBlockBuckets, TransientGlobalAttention as TransientGlobalAttention
from archcli.modules.compressed.compressor import BlockCompressor as BlockCompressor, BlockIndexer as BlockIndexer
from archcli.modules.ends.embedding import Embedding as Embedding, Head as Head, JoinedTable as JoinedTable, LogitHead as LogitHead, MaskedHead as MaskedHead, OutputHead as OutputHead, TransformedHead as TransformedHead
from archcli.modules.ends.loss import CrossEntropy as CrossEntropy, Likelihood as Likelihood, Loss as Loss
from archcli.modules.ends.mtp import MultiTokenPrediction as MultiTokenPrediction, Shared as Shared
from archcli.modules.ends.sampled_heads import AdaptiveHead as AdaptiveHead, HierarchicalHead as HierarchicalHead, SampledHead as SampledHead
from archcli.modules.models.decoder import Decoder as Decoder, Generator as Generator
from archcli.modules.models.encoder import Encoder as Encoder
from archcli.modules.models.encoder_decoder import DecoderStack as DecoderStack, EncoderDecoder as EncoderDecoder, EncoderStack as EncoderStack
from archcli.modules.models.layers import DistinctLayer as DistinctLayer, GroupLayers as GroupLayers, LayerIndex as LayerIndex
from archcli.modules.models.model import Model as Model, Training as Training
from archcli.modules.models.stack import Group as Group, Stack as Stack
from archcli.modules.networks.activation import Activation as Activation, GELU as GELU, GELUTanh as GELUTanh, HardSwish as HardSwish, ReLU as ReLU, ReLU6 as ReLU6, SiLU as SiLU, Sigmoid as Sigmoid, Softplus as Softplus, SquaredReLU as SquaredReLU, Swish as Swish, Tanh as Tanh, XIELU as XIELU
from archcli.modules.networks.convolved import ConvolvedNetwork as ConvolvedNetwork
from archcli.modules.networks.experts import MixtureOfExperts as MixtureOfExperts, Router as Router, SharedSinkExperts as SharedSinkExperts
from archcli.modules.networks.ffn import FeedForward as FeedForward, GLU as GLU, MLP as MLP
from archcli.modules.networks.ngrams import NGramStreams as NGramStreams
from archcli.modules.networks.norm import BatchNorm as BatchNorm, LayerNorm as LayerNorm, Norm as Norm, PrescaledRMSNorm as PrescaledRMSNorm, QKNorm as QKNorm, RMSNorm as RMSNorm, SelfGatedRMSNorm as SelfGatedRMSNorm
from archcli.modules.networks.per_layer import PerLayerEmbedding as PerLayerEmbedding
from archcli.modules.positions.position import ALiBi as ALiBi, Learned as Learned, NoPosition as NoPosition, Position as Position, Rope as Rope, Sinusoidal as Sinusoidal
from archcli.modules.positions.relative import DistanceBias as DistanceBias, LayerBuckets as LayerBuckets, RelativeBuckets as RelativeBuckets, RelativeKey as RelativeKey, RelativeVector as RelativeVector, ScoreBias as ScoreBias
from archcli.modules.positions.rope_scaling import DynamicNTKScaling as DynamicNTKScaling, LinearScaling as LinearScaling, Llama3Scaling as Llama3Scaling, LongRopeScaling as LongRopeScaling, NTKScaling as NTKScaling, NoScaling as NoScaling, ProportionalScaling as ProportionalScaling, RopeScaling as RopeScaling, YarnScaling as YarnScaling
from archcli.modules.recurrent.base import Recurrent as Recurrent
from archcli.modules.recurrent.decaying import LightningAttention as LightningAttention, Retention as Retention
from archcli.modules.recurrent.delta_net import DeltaRule as DeltaRule, GatedDeltaNet as GatedDeltaNet, KimiDeltaAttention as KimiDeltaAttention
from archcli.modules.recurrent.gated_norm import GatedLayerNorm as GatedLayerNorm, GatedNorm as GatedNorm, GatedRMSNorm as GatedRMSNorm
from archcli.modules.recurrent.mamba import Mamba as Mamba, Mamba2 as Mamba2
from archcli.modules.recurrent.mlstm import MLSTM as MLSTM
from archcli.modules.recurrent.rg_lru import RGLRU as RGLRU
from archcli.modules.recurrent.rwkv import RWKV4 as RWKV4, RWKVChannelMix as RWKVChannelMix
from archcli.modules.recurrent.short_conv import ShortConvolution as ShortConvolution
from archcli.modules.spec.base import Inline as Inline, Module as Module, Spec as Spec, children as children, ends_in as ends_in, find as find, settings as settings, substitute as substitute
from archcli.modules.spec.context import Between as Between, Context as Context, LayerCache as LayerCache, Lent as Lent, SharedBlocks as SharedBlocks
from archcli.modules.spec.degrees import Degrees as Degrees
from archcli.modules.spec.fields import Field as Field, Inherit as Inherit
from archcli.modules.spec.request import Forms as Forms, InputSpec as InputSpec, Medium as Medium, Request as Request
from archcli.modules.spec.unread import Holder as Holder
from archcli.modules.spec.values import Advice as Advice, Conversion as Conversion, Interval as Interval, Length as Length, Meaning as Meaning, Refusal as Refusal, ValueType as ValueType
from archcli.modules.stored.formats import Bits as Bits, NativeProduct as NativeProduct, Packing as Packing, StoredFormat as StoredFormat
from archcli.modules.stored.mixes import Mix as Mix, MixedModel as MixedModel, Stacked as Stacked, StoredLayer as StoredLayer, StoredLayers as StoredLayers
from archcli.modules.stored.quantization import Format as Format, Quantization as Quantization, Rule as Rule
from archcli.modules.tensor_parallel.checks import Count as Count
from archcli.modules.tensor_parallel.gathered import GatheredNorm as GatheredNorm
from archcli.modules.tensor_parallel.layouts import Layout as Layout
from archcli.modules.tensor_parallel.shard import Sharded as Sharded
from archcli.modules.tensor_parallel.tape import ShardTape as ShardTape
from archcli.wings.media.modules.blocks.conformer import ConformerBlock as ConformerBlock, LightConvolution as LightConvolution
from archcli.wings.media.modules.blocks.contexts import BlockContextAttention as BlockContextAttention
from archcli.wings.media.modules.blocks.crossed import GatedPreNorm as GatedPreNorm, PerceiverBlock as PerceiverBlock, TileEmbedding as TileEmbedding
from archcli.wings.media.modules.blocks.grid import Coarser as Coarser, ConvolvedPreNorm as ConvolvedPreNorm, Downsample as Downsample
from archcli.wings.media.modules.blocks.windows import AxisAttention as AxisAttention, ChannelAttention as ChannelAttention, GridWindowAttention as GridWindowAttention, PatchWindowAttention as PatchWindowAttention
from archcli.wings.media.modules.ends.frontend import ConvFrontEnd as ConvFrontEnd
from archcli.wings.media.modules.ends.patches import FrontEnd as FrontEnd, PatchEmbedding as PatchEmbedding, Patched as Patched, TiledPatches as TiledPatches
from archcli.wings.media.modules.ends.pooling import AttentionPooling as AttentionPooling, BesidePooling as BesidePooling, FirstAndMean as FirstAndMean, FirstToken as FirstToken, MeanToken as MeanToken, Pooling as Pooling
from archcli.wings.media.modules.ends.projectors import ActivationStep as ActivationStep, BlockStep as BlockStep, ConvolveStep as ConvolveStep, DropStep as DropStep, LinearStep as LinearStep, MergeStep as MergeStep, NetworkStep as NetworkStep, NormStep as NormStep, Pieces as Pieces, PoolStep as PoolStep, ProjectorStep as ProjectorStep, QueryWindowsStep as QueryWindowsStep, RepeatStep as RepeatStep
from archcli.wings.media.modules.ends.sounds import ConvolvedSpectrogram as ConvolvedSpectrogram
from archcli.wings.media.modules.ends.spectrograms import CausalSpectrogram as CausalSpectrogram, ChunkedFrames as ChunkedFrames, ChunkedSpectrogram as ChunkedSpectrogram, FramesEnd as FramesEnd, PlainFrames as PlainFrames, SubsampledSpectrogram as SubsampledSpectrogram
from archcli.wings.media.modules.ends.waves import WavePyramid as WavePyramid
from archcli.wings.media.modules.images.canvases import CoveringTiles as CoveringTiles, PaddedGrid as PaddedGrid, TokenBudget as TokenBudget
from archcli.wings.media.modules.images.convolved import GridConvolution as GridConvolution
from archcli.wings.media.modules.images.mergers import FramedStep as FramedStep, JoinTilesStep as JoinTilesStep, RowEndsStep as RowEndsStep, StepsBlock as StepsBlock, WindowMergerStep as WindowMergerStep
from archcli.wings.media.modules.images.sizings import CanvasTiles as CanvasTiles, ExactMultiple as ExactMultiple, FixedSize as FixedSize, ImageSizing as ImageSizing, LargestMultiple as LargestMultiple, LongestSide as LongestSide, NearestMultiple as NearestMultiple, PinnedTiles as PinnedTiles, SplitLongest as SplitLongest
from archcli.wings.media.modules.images.tilings import BetweenSides as BetweenSides, CroppedTiles as CroppedTiles, GridBudget as GridBudget, PatchBudget as PatchBudget, PatchRange as PatchRange, SlicedSquares as SlicedSquares, TilesBeyond as TilesBeyond, UnknownSizing as UnknownSizing, WindowTiles as WindowTiles, WithinBounds as WithinBounds
from archcli.wings.media.modules.models.media import Deepstack as Deepstack
from archcli.wings.media.modules.models.media_encoder import MediaEncoder as MediaEncoder, Taps as Taps
from archcli.wings.media.modules.models.resamplers import AttentionPoolStep as AttentionPoolStep, GatedStep as GatedStep, GridTablesStep as GridTablesStep, KeepStep as KeepStep, LatentsStep as LatentsStep, LayersStep as LayersStep, MeanFirstStep as MeanFirstStep, QueriesStep as QueriesStep, ReadingStep as ReadingStep, TableStep as TableStep
from archcli.wings.media.modules.models.text_tower import CausalTextTower as CausalTextTower, TextTower as TextTower
from archcli.wings.media.modules.models.tower import GivenMedium as GivenMedium, Tower as Tower, TowerModel as TowerModel
from archcli.wings.media.modules.models.videos import EachFrame as EachFrame, PatchedFrames as PatchedFrames, VideoSizing as VideoSizing
from archcli.wings.media.modules.positions import GridDifferences as GridDifferences, GridRope as GridRope, PaddedTiles as PaddedTiles, SharedGridDifferences as SharedGridDifferences
