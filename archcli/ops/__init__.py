"""The closed vocabulary: every forward is written in these operations and no other.

Each op states its output's shape, the weights it owns, what it costs in parts, and how torch does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archcli.lazy import lazy

if TYPE_CHECKING:  # the types of the names below
    from archcli.ops.attend import *
    from archcli.ops.batch_normalize import *
    from archcli.ops.classes import *
    from archcli.ops.communicate import *
    from archcli.ops.curves import *
    from archcli.ops.dense import *
    from archcli.ops.difference import *
    from archcli.ops.disentangled import *
    from archcli.ops.dropout import *
    from archcli.ops.fourier import *
    from archcli.ops.gate_keys import *
    from archcli.ops.hyper import *
    from archcli.ops.index import *
    from archcli.ops.layout import *
    from archcli.ops.linear_attend import *
    from archcli.ops.loss import *
    from archcli.ops.mask import *
    from archcli.ops.normalize import *
    from archcli.ops.pointwise import *
    from archcli.ops.query_temperature import *
    from archcli.ops.recurrent.block_diagonal import *
    from archcli.ops.recurrent.bounded_decay import *
    from archcli.ops.recurrent.causal_conv import *
    from archcli.ops.recurrent.conv_pair import *
    from archcli.ops.recurrent.delta_gates import *
    from archcli.ops.recurrent.delta_scan import *
    from archcli.ops.recurrent.diagonal_scan import *
    from archcli.ops.recurrent.head_decay import *
    from archcli.ops.recurrent.mlstm_scan import *
    from archcli.ops.recurrent.selective_scan import *
    from archcli.ops.recurrent.state_scan import *
    from archcli.ops.recurrent.step_size import *
    from archcli.ops.recurrent.token_shift import *
    from archcli.ops.recurrent.wkv import *
    from archcli.ops.relative import *
    from archcli.ops.rotary import *
    from archcli.ops.route import *
    from archcli.ops.route_heads import *
    from archcli.ops.route_shared import *
    from archcli.ops.route_skip import *
    from archcli.ops.scaled import *
    from archcli.ops.select import *
    from archcli.ops.sparse import *
    from archcli.ops.streams import *
    from archcli.ops.zero_experts import *

HOMES = {
    ".attend": ["Attend"],
    ".batch_normalize": ["BatchNormalize"],
    ".classes": ["ClassLinear", "ClassLogProbs", "ClassOf"],
    ".communicate": [
        "AllGather",
        "AllReduce",
        "AllToAll",
        "OwnPart",
        "ReduceScatter",
        "SumGradient",
    ],
    ".dense": ["Conv1d", "Einsum", "Gather", "Linear", "Lookup", "Parameter"],
    ".difference": ["WeightedDifference"],
    ".dropout": ["Dropout"],
    ".gate_keys": ["GateKeys"],
    ".index": ["IndexTopK"],
    ".layout": [
        "Concat",
        "ExtendCache",
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
    ".linear_attend": ["FeatureMap", "LinearAttend"],
    ".loss": ["GatherLast", "LogSoftmax", "LogSumExp", "Mean", "Subtract"],
    ".mask": ["Bidirectional", "Causal", "Chunked", "Mask", "SlidingWindow", "TopK"],
    ".normalize": ["LentNormalize", "Normalize"],
    ".curves": ["ActivateSwish", "ActivateXIELU"],
    ".pointwise": [
        "Activate",
        "Add",
        "Clip",
        "HeadBias",
        "Multiply",
        "Scale",
        "ScaleParts",
        "Softcap",
    ],
    ".query_temperature": ["QueryTemperature"],
    ".fourier": ["Fourier"],
    ".disentangled": ["DisentangledBias", "LentLinear"],
    ".recurrent.block_diagonal": ["BlockDiagonal"],
    ".recurrent.bounded_decay": ["BoundedLogDecay"],
    ".recurrent.causal_conv": ["CausalConv1d"],
    ".recurrent.delta_gates": ["L2Normalize", "LogDecay"],
    ".recurrent.delta_scan": ["DeltaScan"],
    ".recurrent.diagonal_scan": ["DiagonalScan", "GatedDecay"],
    ".recurrent.selective_scan": ["SelectiveScan"],
    ".recurrent.state_scan": ["StateScan"],
    ".recurrent.step_size": ["HeadSkip", "StepSize"],
    ".recurrent.token_shift": ["Interpolate", "TokenShift"],
    ".recurrent.wkv": ["WKV"],
    ".recurrent.conv_pair": ["AverageHeads", "ConvPair"],
    ".recurrent.head_decay": ["HeadDecay"],
    ".recurrent.mlstm_scan": ["MLSTMScan"],
    ".relative": ["RelativeBias", "RelativeKeys", "RelativeProfiles"],
    ".rotary": ["AddConstant", "Positions", "RotaryTable", "Rotate", "Sinusoid"],
    ".route": ["Combine", "Dispatch", "Route"],
    ".route_heads": ["CollectHeads", "SpreadHeads"],
    ".route_shared": ["RouteBesideShared"],
    ".route_skip": ["SkipLast"],
    ".scaled": ["GaussianTopK", "ScaleChosen", "StoredScale", "TrainedScale", "WithinTable"],
    ".select": ["Candidates", "ClusterIndex", "Sample", "ScatterAdd", "Select"],
    ".zero_experts": ["CombineReal", "DispatchReal"],
    ".sparse": ["Dilated", "Fixed", "Strided", "WindowAndGlobal"],
    ".hyper": ["CollapseStreams", "StreamGates"],
    ".streams": [
        "AddToLater",
        "MatchMagnitude",
        "MeanStreams",
        "SpreadStreams",
        "StackStreams",
        "TakeStream",
    ],
}
"""The public names, by the file that defines them."""

__getattr__, __dir__ = lazy(__name__, HOMES)
__all__ = [name for names in HOMES.values() for name in names]
