"""What is spent in training alone: dropout, and the statistics of BatchNorm.

The layer of Ivanov et al., figure by figure.
"""

import pytest

from archcli.errors import ArchError
from archcli.graph import OpClass
from archcli.load.source import load
from archcli.measure.flops import count_flops
from archcli.measure.passes import train_pass
from archcli.modules import GLU, BatchNorm, Group, LayerNorm, LinearAttention, PrescaledRMSNorm, QKNorm
from archcli.modules.spec.request import Request
from small import attention, decoder, layer

TOKENS, PAIRS = 2 * 5, 2 * 4 * (1 + 2 + 3 + 4 + 5)


def other(model, phase):
    return count_flops(model, Request(phase=phase, batch_size=2, seq_len=5)).totals["other_flops"]


def dropping(**shares):
    """The small decoder with shares dropped by place: probabilities, hidden, residual."""
    block = layer(
        attention(dropout=shares.get("probabilities", 0.0)), GLU(d_ff=12, dropout=shares.get("hidden", 0.0))
    )
    return decoder(Group(n_layers=3, layer=block.replace(dropout=shares.get("residual", 0.0))))


# elements that are dropped of, in the forward and in the backward; a softmax's gradient holds that of its
# dropout
PLACES = {
    "probabilities": (3 * PAIRS, 0),
    "hidden": (3 * TOKENS * 12,) * 2,
    "residual": (3 * 2 * TOKENS * 8,) * 2,
}


@pytest.mark.parametrize("place", PLACES)
def test_dropout_costs_in_training_alone(place):
    forward, backward = PLACES[place]
    model = dropping(**{place: 0.1})
    assert other(model, "train") == other(decoder(), "train") + forward + backward
    for phase in ("forward", "prefill", "decode"):
        assert other(model, phase) == other(decoder(), phase)


def test_nothing_dropped_is_no_operation():
    assert [row for row in train_pass(dropping(), 1, 3).rows if "drop" in row.path] == []


@pytest.mark.parametrize("share", [1.0, -0.1, 1.5])
def test_a_share_is_below_the_whole(share):
    with pytest.raises(ArchError, match="dropout must be a number"):
        attention(dropout=share)


def test_linear_attention_has_nothing_to_drop():
    with pytest.raises(ArchError, match="unknown key dropout"):
        LinearAttention(n_heads=2, dropout=0.1)


def normed(norm):
    return decoder(Group(n_layers=3, layer=layer().replace(norm=norm)), norm=norm)


NORMS = (3 * 2 + 1) * TOKENS * 8


def test_batch_statistics_are_taken_in_training_alone():
    batch, plain = normed(BatchNorm()), normed(LayerNorm())
    assert other(batch, "train") == other(plain, "train")  # of each element the same, along another axis
    assert other(plain, "forward") - other(batch, "forward") == 3 * NORMS


def test_a_norm_is_exchanged_by_its_kind():
    model = load("gpt2", ["norm.kind=batchnorm"]).model
    totals = count_flops(model, Request(seq_len=4)).totals
    assert isinstance(model.norm, BatchNorm)
    assert totals["by_class"]["normalization"] == (2 * 12 + 1) * 4 * (4 * 768) + 12 * 12 * 5 * (1 + 2 + 3 + 4)


def test_batch_norm_has_no_gain_per_head_and_channel():
    with pytest.raises(ArchError, match="batchnorm has a gain per channel"):
        QKNorm(per="head_distinct", norm=BatchNorm())
    with pytest.raises(ArchError, match="prescaled_rmsnorm has a gain per channel"):
        QKNorm(per="head_distinct", norm=PrescaledRMSNorm())


IVANOV = """
kind: encoder
vocab_size: 30522
d_model: 1024
norm: layernorm
final_norm: false
groups:
  - n_layers: 1
    layer:
      kind: post_norm
      dropout: 0.1
      attention: {kind: mha, n_heads: 16, causal: false, bias: true, dropout: 0.1}
      ffn: {kind: mlp, d_ff: 4096, activation: relu, bias: true, dropout: 0.1}
"""
# GFLOP as printed: a forward, then its gradients. One row here may be a part of one there, which fuses Q, K
# and V.
OPERATORS = {
    "attention.attend.scores": ("4.295", "4.295", "4.295"),
    "attention.attend.mix": ("4.295", "4.295", "4.295"),
    "attention.o_proj.matmul": ("8.590", "8.590", "8.590"),
    "attention.o_proj.bias": ("0.004", "0.004"),
    "attention_dropout.dropout": ("0.004", "0.004"),
    "attention_residual.add": ("0.004", "0.004"),
    "attention_norm.normalize": ("0.029", "0.038", "0.017"),
    "ffn.up_proj.matmul": ("34.360", "34.360", "34.360"),
    "ffn.up_proj.bias": ("0.017", "0.017"),
    "ffn.activation.relu": ("0.000", "0.000"),
    "ffn.dropout.dropout": ("0.017", "0.017"),
    "ffn.down_proj.matmul": ("34.360", "34.360", "34.360"),
    "ffn.down_proj.bias": ("0.004", "0.004"),
    "ffn_dropout.dropout": ("0.004", "0.004"),
    "ffn_residual.add": ("0.004", "0.004"),
    "ffn_norm.normalize": ("0.029", "0.038", "0.017"),
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """(path, part) of the layer's training step: 8 sequences of 512 tokens."""
    path = tmp_path_factory.mktemp("ivanov") / "layer.yaml"
    path.write_text(IVANOV)
    rows = train_pass(load(str(path)).model, 8, 512).rows
    return [
        (f"{row.path.removeprefix('layers.0.')}.{part.name}", part)
        for row in rows
        if "layers" in row.path
        for part in row.parts
    ]


def flops(parts, op_class):
    return sum(one.flops for _, part in parts for one in (part, *part.backward) if one.op_class is op_class)


def test_the_layer_of_ivanov_has_their_flops_by_class(parts):
    """arXiv:2007.00072 Table 1: 99.80, 0.17 and 0.03% of 335.7 GFLOP."""
    found = [flops(parts, each) for each in (OpClass.CONTRACTION, OpClass.NORMALIZATION, OpClass.ELEMENTWISE)]
    assert [round(each / 1e9, 4) for each in found] == [335.0074, 0.5746, 0.1049]
    assert [f"{100 * each / sum(found):.2f}" for each in found] == ["99.80", "0.17", "0.03"]


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_of_ivanov_has_their_flops(parts, name):
    (part,) = [part for path, part in parts if path == name]
    assert tuple(f"{one.flops / 1e9:.3f}" for one in (part, *part.backward)) == OPERATORS[name]


def test_operators_that_ivanov_fuse_add_up_to_theirs(parts):
    projections = [
        part for path, part in parts if path.endswith(("q_proj.matmul", "k_proj.matmul", "v_proj.matmul"))
    ]
    assert f"{sum(part.flops for part in projections) / 1e9:.3f}" == "25.770"
    biases = [part for path, part in parts if path.endswith(("q_proj.bias", "k_proj.bias", "v_proj.bias"))]
    assert (
        f"{sum(part.flops for part in biases) / 1e9:.3f}"
        == f"{sum(part.backward[0].flops for part in biases) / 1e9:.3f}"
        == "0.013"
    )
    softmax = [part for path, part in parts if path.endswith(("attend.softmax", "attend.dropout"))]
    assert f"{sum(part.flops for part in softmax) / 1e9:.3f}" == "0.201"
    assert f"{sum(back.flops for part in softmax for back in part.backward) / 1e9:.3f}" == "0.168"
    assert (
        f"{sum(part.read for part in softmax) / 1e6:.1f} {sum(part.written for part in softmax) / 1e6:.2f}"
        == "33.6 100.66"
    )
    assert f"{sum(back.read for part in softmax for back in part.backward) / 1e6:.1f}" == "100.7"
