"""What `archcli.ops` has, for type checkers and editors; made with listing.json."""

from archcli.ops.attention.attend import Attend as Attend, ExtendCache as ExtendCache
from archcli.ops.attention.attend_kernel import AttendCall as AttendCall
from archcli.ops.attention.block_sums import BlockBias as BlockBias, NearAndSums as NearAndSums, SumBlocks as SumBlocks
from archcli.ops.attention.blocks import AverageBlocks as AverageBlocks, BlockPositions as BlockPositions, ClosedBlocks as ClosedBlocks, CompressTokens as CompressTokens, ExtendBlocks as ExtendBlocks, JoinBlocks as JoinBlocks, NearAndBlocks as NearAndBlocks
from archcli.ops.attention.chosen_keys import GateKeys as GateKeys, IndexBlocks as IndexBlocks, IndexEvenTopK as IndexEvenTopK, IndexTopK as IndexTopK, PoolsAndTail as PoolsAndTail, TopBlocks as TopBlocks
from archcli.ops.attention.difference import WeightedDifference as WeightedDifference
from archcli.ops.attention.mask import Bidirectional as Bidirectional, Causal as Causal, CausalPattern as CausalPattern, Chunked as Chunked, Dilated as Dilated, Fixed as Fixed, Mask as Mask, PatchWindows as PatchWindows, SlidingWindow as SlidingWindow, Strided as Strided, TopK as TopK, WindowAndGlobal as WindowAndGlobal
from archcli.ops.attention.near import BlockSparse as BlockSparse, CentredWindow as CentredWindow, NearAndSource as NearAndSource
from archcli.ops.attention.relative import ByDistance as ByDistance, ClippedBias as ClippedBias, DisentangledBias as DisentangledBias, Distances as Distances, LentLinear as LentLinear, RelativeBias as RelativeBias, RelativeKeys as RelativeKeys, RelativeProfiles as RelativeProfiles, RelativeVectors as RelativeVectors
from archcli.ops.attention.rotary import AddConstant as AddConstant, Frequencies as Frequencies, Positions as Positions, RotaryTable as RotaryTable, Rotate as Rotate, Sinusoid as Sinusoid
from archcli.ops.base import View as View
from archcli.ops.communicate import AllGather as AllGather, AllReduce as AllReduce, AllToAll as AllToAll, BesideOthers as BesideOthers, Communication as Communication, OwnExperts as OwnExperts, OwnPart as OwnPart, Peers as Peers, ReduceScatter as ReduceScatter, SumGradient as SumGradient
from archcli.ops.dense import Conv1d as Conv1d, Einsum as Einsum, Fourier as Fourier, Gather as Gather, Linear as Linear, Lookup as Lookup, Parameter as Parameter
from archcli.ops.layout import Concat as Concat, KeepFirst as KeepFirst, KeepLast as KeepLast, MergeHeads as MergeHeads, Split as Split, SplitHeads as SplitHeads, Transpose as Transpose, Unsqueeze as Unsqueeze, Widen as Widen, Zeros as Zeros
from archcli.ops.losses.loss import GatherLast as GatherLast, LogSoftmax as LogSoftmax, LogSumExp as LogSumExp, Mean as Mean, Subtract as Subtract
from archcli.ops.losses.targets import Candidates as Candidates, ClassLinear as ClassLinear, ClassLogProbs as ClassLogProbs, ClassOf as ClassOf, ClusterIndex as ClusterIndex, Sample as Sample, ScatterAdd as ScatterAdd, Select as Select
from archcli.ops.mixtures.route import Combine as Combine, Dispatch as Dispatch, Route as Route, SkipLast as SkipLast
from archcli.ops.mixtures.route_variants import CollectHeads as CollectHeads, CombineReal as CombineReal, DispatchReal as DispatchReal, RouteBesideShared as RouteBesideShared, RouteByToken as RouteByToken, SpreadHeads as SpreadHeads
from archcli.ops.normalize import BatchNormalize as BatchNormalize, LentNormalize as LentNormalize, Normalize as Normalize
from archcli.ops.pointwise import Activate as Activate, ActivateSwish as ActivateSwish, ActivateXIELU as ActivateXIELU, Add as Add, Clip as Clip, Dropout as Dropout, HeadBias as HeadBias, Multiply as Multiply, Scale as Scale, ScaleParts as ScaleParts, Softcap as Softcap
from archcli.ops.recurrent.causal_conv import AverageHeads as AverageHeads, CausalConv1d as CausalConv1d, ConvPair as ConvPair
from archcli.ops.recurrent.decays import BoundedLogDecay as BoundedLogDecay, HeadDecay as HeadDecay, L2Normalize as L2Normalize, LogDecay as LogDecay
from archcli.ops.recurrent.delta_cost import DeltaSizes as DeltaSizes
from archcli.ops.recurrent.delta_scan import DeltaScan as DeltaScan
from archcli.ops.recurrent.diagonal_scan import DiagonalScan as DiagonalScan, GatedDecay as GatedDecay
from archcli.ops.recurrent.head_weights import BlockDiagonal as BlockDiagonal, HeadSkip as HeadSkip, StepSize as StepSize
from archcli.ops.recurrent.linear_attend import FeatureMap as FeatureMap, LinearAttend as LinearAttend
from archcli.ops.recurrent.mlstm_scan import MLSTMScan as MLSTMScan
from archcli.ops.recurrent.ngrams import DilatedConv1d as DilatedConv1d, HashNGrams as HashNGrams, ShareOut as ShareOut, SimilarityGates as SimilarityGates
from archcli.ops.recurrent.selective_scan import SelectiveScan as SelectiveScan
from archcli.ops.recurrent.state_scan import StateScan as StateScan
from archcli.ops.recurrent.wkv import Interpolate as Interpolate, TokenShift as TokenShift, WKV as WKV
from archcli.ops.scaled import Detach as Detach, GatedResidual as GatedResidual, GaussianTopK as GaussianTopK, Magnitude as Magnitude, QueryTemperature as QueryTemperature, ScaleChosen as ScaleChosen, StoredScale as StoredScale, TrainedScale as TrainedScale, WithinTable as WithinTable
from archcli.ops.streams import AddToLater as AddToLater, CollapseStreams as CollapseStreams, MatchMagnitude as MatchMagnitude, MeanStreams as MeanStreams, MixingGates as MixingGates, SpreadStreams as SpreadStreams, StackStreams as StackStreams, StreamGates as StreamGates, TakeStream as TakeStream
from archcli.ops.tokens import ChannelTokens as ChannelTokens, ConcatTokens as ConcatTokens, JoinChannels as JoinChannels, JoinNeighbours as JoinNeighbours, PadTokens as PadTokens, Regroup as Regroup, TakeTokens as TakeTokens
from archcli.wings.media.ops.merging import DropTokens as DropTokens, JoinTiles as JoinTiles, MergeBlocks as MergeBlocks, PoolBlocks as PoolBlocks
from archcli.wings.media.ops.patches import ChannelsFirst as ChannelsFirst, ChannelsLast as ChannelsLast, Conv2d as Conv2d, FlattenGrid as FlattenGrid, FlattenPlaces as FlattenPlaces, KeepToken as KeepToken, MeanTokens as MeanTokens, Patchify as Patchify, PrependTokens as PrependTokens, TrainedTokens as TrainedTokens, UnflattenGrid as UnflattenGrid
from archcli.wings.media.ops.places import AxisTables as AxisTables, GridBias as GridBias, GridCoordinates as GridCoordinates, GridRotaryTable as GridRotaryTable, ResizeTable as ResizeTable
from archcli.wings.media.ops.placing import JoinPieces as JoinPieces, PairPositions as PairPositions, PlaceFeatures as PlaceFeatures, Spans as Spans, UnpadTiles as UnpadTiles
from archcli.wings.media.ops.spans import CutSpans as CutSpans, DepthwiseConv1d as DepthwiseConv1d, FlattenFrames as FlattenFrames, FramesImage as FramesImage, JoinSpans as JoinSpans, MaskSpans as MaskSpans, RepeatBatch as RepeatBatch, Softmax as Softmax, SpanDistances as SpanDistances
from archcli.wings.media.ops.tables import AddGridTables as AddGridTables, AddTilePlaces as AddTilePlaces, AddTileTable as AddTileTable, AxisBias as AxisBias, PairPadding as PairPadding, TanhScale as TanhScale
from archcli.wings.media.ops.windows import CutWindows as CutWindows, JoinWindows as JoinWindows
