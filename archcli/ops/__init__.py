"""The closed vocabulary: every forward is written in these operations and no other.

Each op states its output's shape, the weights it owns, what it costs in parts, and how torch does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archcli.lazy import lazy

if TYPE_CHECKING:  # the types of the names below
    from archcli.ops.attention.attend import *
    from archcli.ops.attention.block_sums import *
    from archcli.ops.attention.blocks import *
    from archcli.ops.attention.chosen_keys import *
    from archcli.ops.attention.difference import *
    from archcli.ops.attention.mask import *
    from archcli.ops.attention.near import *
    from archcli.ops.attention.relative import *
    from archcli.ops.attention.rotary import *
    from archcli.ops.communicate import *
    from archcli.ops.dense import *
    from archcli.ops.grids.merging import *
    from archcli.ops.grids.patches import *
    from archcli.ops.grids.places import *
    from archcli.ops.grids.placing import *
    from archcli.ops.grids.spans import *
    from archcli.ops.grids.tables import *
    from archcli.ops.grids.tokens import *
    from archcli.ops.grids.waves import *
    from archcli.ops.grids.windows import *
    from archcli.ops.layout import *
    from archcli.ops.losses.loss import *
    from archcli.ops.losses.targets import *
    from archcli.ops.mixtures.route import *
    from archcli.ops.mixtures.route_variants import *
    from archcli.ops.normalize import *
    from archcli.ops.pointwise import *
    from archcli.ops.recurrent.causal_conv import *
    from archcli.ops.recurrent.decays import *
    from archcli.ops.recurrent.delta_scan import *
    from archcli.ops.recurrent.diagonal_scan import *
    from archcli.ops.recurrent.head_weights import *
    from archcli.ops.recurrent.linear_attend import *
    from archcli.ops.recurrent.mlstm_scan import *
    from archcli.ops.recurrent.ngrams import *
    from archcli.ops.recurrent.selective_scan import *
    from archcli.ops.recurrent.state_scan import *
    from archcli.ops.recurrent.wkv import *
    from archcli.ops.scaled import *
    from archcli.ops.streams import *

HOMES = {
    ".attention.attend": ["Attend", "ExtendCache"],
    ".normalize": ["BatchNormalize", "LentNormalize", "Normalize"],
    ".losses.targets": [
        "ClassLinear",
        "ClassLogProbs",
        "ClassOf",
        "Candidates",
        "ClusterIndex",
        "Sample",
        "ScatterAdd",
        "Select",
    ],
    ".communicate": [
        "AllGather",
        "AllReduce",
        "AllToAll",
        "BesideOthers",
        "OwnExperts",
        "OwnPart",
        "ReduceScatter",
        "SumGradient",
    ],
    ".dense": ["Conv1d", "Einsum", "Gather", "Linear", "Lookup", "Parameter", "Fourier"],
    ".attention.difference": ["WeightedDifference"],
    ".grids.patches": [
        "ChannelsFirst",
        "ChannelsLast",
        "Conv2d",
        "FlattenGrid",
        "FlattenPlaces",
        "FoldPlaces",
        "KeepToken",
        "MeanTokens",
        "Patchify",
        "PrependTokens",
        "StandardizedConv2d",
        "TrainedTokens",
        "Tubelets",
        "UnflattenGrid",
    ],
    ".grids.cosine": ["DifferenceBias", "HeadTemperature", "LogDifferences"],
    ".grids.groups": ["AbsoluteBias", "CutGroups", "EveryPlace", "JoinGroups", "SoftmaxSum", "SumTokens"],
    ".grids.windows": ["CutWindows", "JoinWindows", "MaskShifted", "MergePlaces"],
    ".grids.pools": [
        "GroupNormalize",
        "MeanPlaces",
        "OuterPlaces",
        "PadPlaces",
        "PoolPlaces",
        "ResponseNormalize",
    ],
    ".grids.merging": ["DropTokens", "JoinTiles", "MergeBlocks", "PoolBlocks"],
    ".grids.waves": ["ChannelNormalize", "ConvolvedPositions", "SpectrogramImage", "WaveChannel"],
    ".grids.tables": [
        "AxisBias",
        "AddGridTables",
        "AddTilePlaces",
        "AddTileTable",
        "PairPadding",
        "TanhScale",
    ],
    ".grids.tokens": [
        "ChannelTokens",
        "ConcatTokens",
        "JoinChannels",
        "JoinNeighbours",
        "PadTokens",
        "Regroup",
        "TakeTokens",
    ],
    ".grids.spans": [
        "CutSpans",
        "DepthwiseConv1d",
        "FlattenFrames",
        "FramesImage",
        "JoinSpans",
        "MaskSpans",
        "RepeatBatch",
        "Softmax",
        "SpanDistances",
    ],
    ".grids.placing": ["JoinPieces", "PairPositions", "PlaceFeatures", "Spans", "UnpadTiles"],
    ".grids.places": ["AxisTables", "GridBias", "GridCoordinates", "GridRotaryTable", "ResizeTable"],
    ".pointwise": [
        "Dropout",
        "ActivateSwish",
        "ActivateXIELU",
        "Activate",
        "Add",
        "Clip",
        "HeadBias",
        "Multiply",
        "Scale",
        "ScaleParts",
        "Softcap",
    ],
    ".attention.chosen_keys": [
        "GateKeys",
        "IndexBlocks",
        "IndexEvenTopK",
        "IndexTopK",
        "PoolsAndTail",
        "TopBlocks",
    ],
    ".attention.block_sums": ["BlockBias", "NearAndSums", "SumBlocks"],
    ".attention.blocks": [
        "AverageBlocks",
        "BlockPositions",
        "ClosedBlocks",
        "CompressTokens",
        "ExtendBlocks",
        "JoinBlocks",
        "NearAndBlocks",
    ],
    ".layout": [
        "Concat",
        "KeepFirst",
        "KeepLast",
        "MergeHeads",
        "Split",
        "SplitHeads",
        "Transpose",
        "Unsqueeze",
        "Widen",
        "Zeros",
    ],
    ".recurrent.linear_attend": ["FeatureMap", "LinearAttend"],
    ".losses.loss": ["GatherLast", "LogSoftmax", "LogSumExp", "Mean", "Subtract"],
    ".attention.mask": [
        "Bidirectional",
        "Causal",
        "Chunked",
        "Mask",
        "PatchWindows",
        "SlidingWindow",
        "TopK",
        "Dilated",
        "Fixed",
        "Strided",
        "WindowAndGlobal",
    ],
    ".scaled": [
        "GatedResidual",
        "QueryTemperature",
        "GaussianTopK",
        "ScaleChosen",
        "StoredScale",
        "TrainedScale",
        "WithinTable",
    ],
    ".attention.relative": [
        "ByDistance",
        "ClippedBias",
        "DisentangledBias",
        "Distances",
        "GateBias",
        "LentLinear",
        "RelativeBias",
        "RelativeKeys",
        "RelativeProfiles",
        "RelativeVectors",
    ],
    ".recurrent.head_weights": ["BlockDiagonal", "HeadSkip", "StepSize"],
    ".recurrent.decays": ["BoundedLogDecay", "L2Normalize", "LogDecay", "HeadDecay"],
    ".recurrent.causal_conv": ["CausalConv1d", "AverageHeads", "ConvPair"],
    ".recurrent.delta_scan": ["DeltaScan"],
    ".recurrent.diagonal_scan": ["DiagonalScan", "GatedDecay"],
    ".recurrent.selective_scan": ["SelectiveScan"],
    ".recurrent.state_scan": ["StateScan"],
    ".recurrent.wkv": ["Interpolate", "TokenShift", "WKV"],
    ".recurrent.mlstm_scan": ["MLSTMScan"],
    ".attention.near": ["BlockSparse", "CentredWindow", "NearAndSource"],
    ".attention.rotary": ["AddConstant", "Positions", "RotaryTable", "Rotate", "Sinusoid"],
    ".mixtures.route": ["Combine", "Dispatch", "Route", "SkipLast"],
    ".mixtures.route_variants": [
        "CollectHeads",
        "SpreadHeads",
        "RouteBesideShared",
        "RouteByToken",
        "CombineReal",
        "DispatchReal",
    ],
    ".recurrent.ngrams": ["DilatedConv1d", "HashNGrams", "ShareOut", "SimilarityGates"],
    ".streams": [
        "CollapseStreams",
        "StreamGates",
        "AddToLater",
        "MatchMagnitude",
        "MeanStreams",
        "MixingGates",
        "SpreadStreams",
        "StackStreams",
        "TakeStream",
    ],
}
"""The public names, by the file that defines them."""

__getattr__, __dir__ = lazy(__name__, HOMES)
__all__ = [name for names in HOMES.values() for name in names]
