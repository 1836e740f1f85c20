"""Which parts of which rows make up an operator of Ivanov et al. 2021 (arXiv:2007.00072), Table 1; and what they measured.

No count stands here: FLOPs and words are added up from the parts. What the paper alone can say is its share of time.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from archcli.graph import OpClass

SOURCE = "Ivanov, Dryden, Ben-Nun, Li, Hoefler: Data Movement Is All You Need, MLSys 2021, arXiv:2007.00072, Table 1"
MEASURED_ON = "V100, fp16, PyTorch"
WALL_S = 9.14e-3
"""The layer's forward and backward there."""
TIME_SHARES = {OpClass.CONTRACTION: 0.610, OpClass.NORMALIZATION: 0.255, OpClass.ELEMENTWISE: 0.135}
"""Of the runtime there: tensor contraction, statistical normalization, element-wise."""
LETTERS = {OpClass.CONTRACTION: "T", OpClass.NORMALIZATION: "N", OpClass.ELEMENTWISE: "E"}
"""How the paper marks its three classes."""

Phase = Literal["forward", "backward"]


class Line(NamedTuple):
    """An operator of the paper: parts, by name or pattern, of the rows of those paths within a layer.

    A gradient is `part/gradient`. `one_input` marks rows that read one tensor and run as one there: it is read once, and
    its gradient written once. `meets` marks where gradients of branches are added up, which torch does on its own account.
    """

    name: str
    paths: tuple[str, ...]
    parts: tuple[str, ...]
    one_input: bool = False
    meets: bool = False

    @property
    def phase(self) -> Phase:
        """Gradients belong to the backward."""
        return "backward" if "/" in self.parts[0] else "forward"


QKV = ("attention.q_proj", "attention.k_proj", "attention.v_proj")
ATTEND, OUT = ("attention.attend",), ("attention.o_proj",)
DROPOUT_1, RESIDUAL_1, NORM_1 = ("attention_dropout",), ("attention_residual",), ("attention_norm",)
UP, RELU, DROPOUT_U, DOWN = ("ffn.up_proj",), ("ffn.activation",), ("ffn.dropout",), ("ffn.down_proj",)
DROPOUT_2, RESIDUAL_2, NORM_2 = ("ffn_dropout",), ("ffn_residual",), ("ffn_norm",)
DX, DW, DBIAS = ("matmul/d_0",), ("matmul/d_weight",), ("bias/d_bias",)

LINES = (
    Line("Q, K, V", QKV, ("matmul",), one_input=True),
    Line("input bias", QKV, ("bias",)),
    Line("QK^T", ATTEND, ("scores",)),
    Line("scaled softmax, dropout", ATTEND, ("softmax", "dropout")),
    Line("gamma", ATTEND, ("mix",)),
    Line("out", OUT, ("matmul",)),
    Line("output bias", OUT, ("bias",)),
    Line("dropout 1", DROPOUT_1, ("dropout",)),
    Line("residual 1", RESIDUAL_1, ("add",)),
    Line("LayerNorm 1", NORM_1, ("normalize",)),
    Line("linear 1", UP, ("matmul",)),
    Line("bias 1", UP, ("bias",)),
    Line("ReLU", RELU, ("*",)),
    Line("dropout U", DROPOUT_U, ("dropout",)),
    Line("linear 2", DOWN, ("matmul",)),
    Line("bias 2", DOWN, ("bias",)),
    Line("dropout 2", DROPOUT_2, ("dropout",)),
    Line("residual 2", RESIDUAL_2, ("add",)),
    Line("LayerNorm 2", NORM_2, ("normalize",)),
    Line("LayerNorm 2 dW", NORM_2, ("normalize/d_weight",)),
    Line("LayerNorm 2 dX", NORM_2, ("normalize/d_0",)),
    Line("dropout 2 dX", DROPOUT_2, ("dropout/d_0",)),
    Line("linear 2 dX", DOWN, DX),
    Line("linear 2 dW", DOWN, DW),
    Line("bias 2 dW", DOWN, DBIAS),
    Line("dropout U dX", DROPOUT_U, ("dropout/d_0",)),
    Line("ReLU dX", RELU, ("*/*",)),
    Line("bias 1 dW", UP, DBIAS),
    Line("linear 1 dX", UP, DX),
    Line("linear 1 dW", UP, DW),
    Line("residual 2 dX", RESIDUAL_2, ("add/d_0",), meets=True),
    Line("LayerNorm 1 dW", NORM_1, ("normalize/d_weight",)),
    Line("LayerNorm 1 dX", NORM_1, ("normalize/d_0",)),
    Line("output bias dW", OUT, DBIAS),
    Line("dropout 1 dX", DROPOUT_1, ("dropout/d_0",)),
    Line("out dX", OUT, DX),
    Line("out dW", OUT, DW),
    Line("gamma dX1", ATTEND, ("mix/d_0_1",)),
    Line("gamma dX2", ATTEND, ("mix/d_2",)),
    Line("scaled softmax dX", ATTEND, ("softmax/d_softmax", "dropout/d_dropout")),
    Line("QK^T dX1", ATTEND, ("scores/d_0",)),
    Line("QK^T dX2", ATTEND, ("scores/d_1",)),
    Line("Q, K, V dX", QKV, DX, one_input=True),
    Line("Q, K, V dW", QKV, DW, one_input=True),
    Line("input bias dW", QKV, DBIAS),
    Line("residual 1 dX", RESIDUAL_1, ("add/d_0",), meets=True),
)
"""In the order they run in. Names are the paper's; 1 is of the attention, 2 of the feed-forward network, U of its hidden layer."""
