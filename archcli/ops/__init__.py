"""The closed vocabulary: every forward is written in these operations and no other.

Each op states its output's shape, the weights it owns, what it costs in parts, and how torch does it.
"""

from archcli.ops.attend import Attend
from archcli.ops.dense import Contract, Conv1d, Embedding, Gather, Linear, Parameter
from archcli.ops.layout import Cache, Concat, KeepFirst, KeepLast, MergeHeads, Split, SplitHeads, Transpose, Unsqueeze, Zeros
from archcli.ops.mask import Causal, Chunked, Full, Mask, SlidingWindow
from archcli.ops.normalize import Normalize
from archcli.ops.pointwise import Activate, Add, Clip, Multiply, Scale, Softcap, Swish
from archcli.ops.relative import RelativeBias
from archcli.ops.rotary import Positions, RotaryTable, Rotate, Shift, Sinusoid
from archcli.ops.route import Combine, Dispatch, Route

__all__ = [
    "Activate",
    "Add",
    "Attend",
    "Cache",
    "Causal",
    "Chunked",
    "Clip",
    "Combine",
    "Concat",
    "Contract",
    "Conv1d",
    "Dispatch",
    "Embedding",
    "Full",
    "Gather",
    "KeepFirst",
    "KeepLast",
    "Linear",
    "Mask",
    "MergeHeads",
    "Multiply",
    "Normalize",
    "Parameter",
    "Positions",
    "Rotate",
    "RelativeBias",
    "RotaryTable",
    "Route",
    "Scale",
    "Shift",
    "Sinusoid",
    "SlidingWindow",
    "Softcap",
    "Split",
    "SplitHeads",
    "Swish",
    "Transpose",
    "Unsqueeze",
    "Zeros",
]
