"""The closed vocabulary: every forward is written in these operations and no other.

Each op states its output's shape, the weights it owns, what it costs in parts, and how torch does it.
"""

from archcli.ops.attend import Attend
from archcli.ops.batch_normalize import BatchNormalize
from archcli.ops.classes import ClassLinear, ClassLogProbs, ClassOf
from archcli.ops.dense import Conv1d, Einsum, Gather, Linear, Lookup, Parameter
from archcli.ops.dropout import Dropout
from archcli.ops.layout import (
    Concat,
    ExtendCache,
    KeepFirst,
    KeepLast,
    MergeHeads,
    Split,
    SplitHeads,
    Transpose,
    Unsqueeze,
    Zeros,
)
from archcli.ops.linear_attend import FeatureMap, LinearAttend
from archcli.ops.loss import GatherLast, LogSoftmax, LogSumExp, Mean, Subtract
from archcli.ops.mask import Bidirectional, Causal, Chunked, Mask, SlidingWindow
from archcli.ops.normalize import Normalize
from archcli.ops.pointwise import Activate, ActivateSwish, Add, Clip, Multiply, Scale, Softcap
from archcli.ops.relative import RelativeBias, RelativeKeys
from archcli.ops.rotary import AddConstant, Positions, RotaryTable, Rotate, Sinusoid
from archcli.ops.route import Combine, Dispatch, Route
from archcli.ops.select import Candidates, ClusterIndex, Sample, ScatterAdd, Select
from archcli.ops.sparse import Dilated, Fixed, Strided, WindowAndGlobal
from archcli.ops.temper import QueryTemperature

__all__ = [
    "Activate",
    "Add",
    "Attend",
    "BatchNormalize",
    "ExtendCache",
    "Causal",
    "Chunked",
    "Clip",
    "Combine",
    "Concat",
    "Einsum",
    "Conv1d",
    "Dilated",
    "Dispatch",
    "Dropout",
    "Lookup",
    "FeatureMap",
    "Fixed",
    "Bidirectional",
    "Gather",
    "KeepFirst",
    "KeepLast",
    "Linear",
    "LinearAttend",
    "Mask",
    "MergeHeads",
    "Multiply",
    "Normalize",
    "Parameter",
    "Positions",
    "Rotate",
    "RelativeBias",
    "RelativeKeys",
    "RotaryTable",
    "Route",
    "Scale",
    "AddConstant",
    "Sinusoid",
    "SlidingWindow",
    "Softcap",
    "Split",
    "SplitHeads",
    "Strided",
    "ActivateSwish",
    "QueryTemperature",
    "Transpose",
    "Unsqueeze",
    "WindowAndGlobal",
    "Zeros",
    "ScatterAdd",
    "Candidates",
    "ClassLinear",
    "ClassLogProbs",
    "ClassOf",
    "ClusterIndex",
    "LogSoftmax",
    "LogSumExp",
    "Mean",
    "GatherLast",
    "Sample",
    "Select",
    "Subtract",
]
