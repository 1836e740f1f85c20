"""The operators of Ivanov et al. 2021 (arXiv:2007.00072), Table 1, as parts of rows, and their times.

No count stands here: FLOPs and words are added up from the parts.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from archcli.graph import OpClass

SOURCE = (
    "Ivanov, Dryden, Ben-Nun, Li, Hoefler: Data Movement Is All You Need, MLSys 2021, "
    "arXiv:2007.00072, Table 1"
)
MEASURED_ON = "V100, fp16, PyTorch"
WALL_S = 9.14e-3
"""Seconds of the layer's forward and backward."""
TIME_SHARES = {OpClass.CONTRACTION: 0.610, OpClass.NORMALIZATION: 0.255, OpClass.ELEMENTWISE: 0.135}
"""Shares of the runtime: tensor contraction, statistical normalization, element-wise."""
LETTERS = {OpClass.CONTRACTION: "T", OpClass.NORMALIZATION: "N", OpClass.ELEMENTWISE: "E"}
"""The paper's marks of its three classes."""

Phase = Literal["forward", "backward"]


class TableLine(NamedTuple):
    """An operator of the paper: paths of rows within a layer, and names or patterns of their parts.

    A gradient is `part/gradient`. `one_input` marks rows that read the same tensor and are one operator in
    the paper: the tensor is read once, and its gradient written once. `meets` marks where gradients of
    branches are added up, which torch does outside of any row.
    """

    name: str
    paths: tuple[str, ...]
    parts: tuple[str, ...]
    one_input: bool = False
    meets: bool = False

    @property
    def phase(self) -> Phase:
        return "backward" if "/" in self.parts[0] else "forward"


QKV = ("attention.q_proj", "attention.k_proj", "attention.v_proj")
ATTEND, OUT = ("attention.attend",), ("attention.o_proj",)
DROPOUT_1, RESIDUAL_1, NORM_1 = ("attention_dropout",), ("attention_residual",), ("attention_norm",)
UP, RELU, DROPOUT_U, DOWN = ("ffn.up_proj",), ("ffn.activation",), ("ffn.dropout",), ("ffn.down_proj",)
DROPOUT_2, RESIDUAL_2, NORM_2 = ("ffn_dropout",), ("ffn_residual",), ("ffn_norm",)
DX, DW, DBIAS = ("matmul/d_0",), ("matmul/d_weight",), ("bias/d_bias",)

LINES = (
    TableLine("Q, K, V", QKV, ("matmul",), one_input=True),
    TableLine("input bias", QKV, ("bias",)),
    TableLine("QK^T", ATTEND, ("scores",)),
    TableLine("scaled softmax, dropout", ATTEND, ("softmax", "dropout")),
    TableLine("gamma", ATTEND, ("mix",)),
    TableLine("out", OUT, ("matmul",)),
    TableLine("output bias", OUT, ("bias",)),
    TableLine("dropout 1", DROPOUT_1, ("dropout",)),
    TableLine("residual 1", RESIDUAL_1, ("add",)),
    TableLine("LayerNorm 1", NORM_1, ("normalize",)),
    TableLine("linear 1", UP, ("matmul",)),
    TableLine("bias 1", UP, ("bias",)),
    # * is the only part of an activation, and */* its gradient
    TableLine("ReLU", RELU, ("*",)),
    TableLine("dropout U", DROPOUT_U, ("dropout",)),
    TableLine("linear 2", DOWN, ("matmul",)),
    TableLine("bias 2", DOWN, ("bias",)),
    TableLine("dropout 2", DROPOUT_2, ("dropout",)),
    TableLine("residual 2", RESIDUAL_2, ("add",)),
    TableLine("LayerNorm 2", NORM_2, ("normalize",)),
    TableLine("LayerNorm 2 dW", NORM_2, ("normalize/d_weight",)),
    TableLine("LayerNorm 2 dX", NORM_2, ("normalize/d_0",)),
    TableLine("dropout 2 dX", DROPOUT_2, ("dropout/d_0",)),
    TableLine("linear 2 dX", DOWN, DX),
    TableLine("linear 2 dW", DOWN, DW),
    TableLine("bias 2 dW", DOWN, DBIAS),
    TableLine("dropout U dX", DROPOUT_U, ("dropout/d_0",)),
    TableLine("ReLU dX", RELU, ("*/*",)),
    TableLine("bias 1 dW", UP, DBIAS),
    TableLine("linear 1 dX", UP, DX),
    TableLine("linear 1 dW", UP, DW),
    TableLine("residual 2 dX", RESIDUAL_2, ("add/d_0",), meets=True),
    TableLine("LayerNorm 1 dW", NORM_1, ("normalize/d_weight",)),
    TableLine("LayerNorm 1 dX", NORM_1, ("normalize/d_0",)),
    TableLine("output bias dW", OUT, DBIAS),
    TableLine("dropout 1 dX", DROPOUT_1, ("dropout/d_0",)),
    TableLine("out dX", OUT, DX),
    TableLine("out dW", OUT, DW),
    TableLine("gamma dX1", ATTEND, ("mix/d_0_1",)),
    TableLine("gamma dX2", ATTEND, ("mix/d_2",)),
    TableLine("scaled softmax dX", ATTEND, ("softmax/d_softmax", "dropout/d_dropout")),
    TableLine("QK^T dX1", ATTEND, ("scores/d_0",)),
    TableLine("QK^T dX2", ATTEND, ("scores/d_1",)),
    TableLine("Q, K, V dX", QKV, DX, one_input=True),
    TableLine("Q, K, V dW", QKV, DW, one_input=True),
    TableLine("input bias dW", QKV, DBIAS),
    TableLine("residual 1 dX", RESIDUAL_1, ("add/d_0",), meets=True),
)
"""In the order they run in.

Names are the paper's: 1 is attention, 2 the feed-forward network, U inside it.
"""
