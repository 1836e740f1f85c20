"""The closed vocabulary: every forward is written in these operations and no other.

Each op states its output's shape, the weights it owns, what it costs in parts, and how torch does it.
"""

from archcli.ops.attend import Attend
from archcli.ops.batch_normalize import BatchNormalize
from archcli.ops.classes import ClassLinear, ClassLogProbs, ClassOf
from archcli.ops.dense import Contract, Conv1d, Embedding, Gather, Linear, Parameter
from archcli.ops.dropout import Dropout
from archcli.ops.layout import (
    Cache,
    Concat,
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
from archcli.ops.loss import LogSoftmax, LogSumExp, Mean, Pick, Subtract
from archcli.ops.mask import Causal, Chunked, Full, Mask, SlidingWindow
from archcli.ops.normalize import Normalize
from archcli.ops.pointwise import Activate, Add, Clip, Multiply, Scale, Softcap, Swish
from archcli.ops.relative import RelativeBias, RelativeKeys
from archcli.ops.rotary import Positions, RotaryTable, Rotate, Shift, Sinusoid
from archcli.ops.route import Combine, Dispatch, Route
from archcli.ops.select import AddAt, Candidates, ClusterIndex, Sample, Select
from archcli.ops.sparse import Dilated, Fixed, Strided, WindowAndGlobal
from archcli.ops.temper import Temper

__all__ = [
    "Activate",
    "Add",
    "Attend",
    "BatchNormalize",
    "Cache",
    "Causal",
    "Chunked",
    "Clip",
    "Combine",
    "Concat",
    "Contract",
    "Conv1d",
    "Dilated",
    "Dispatch",
    "Dropout",
    "Embedding",
    "FeatureMap",
    "Fixed",
    "Full",
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
    "Shift",
    "Sinusoid",
    "SlidingWindow",
    "Softcap",
    "Split",
    "SplitHeads",
    "Strided",
    "Swish",
    "Temper",
    "Transpose",
    "Unsqueeze",
    "WindowAndGlobal",
    "Zeros",
    "AddAt",
    "Candidates",
    "ClassLinear",
    "ClassLogProbs",
    "ClassOf",
    "ClusterIndex",
    "LogSoftmax",
    "LogSumExp",
    "Mean",
    "Pick",
    "Sample",
    "Select",
    "Subtract",
]
