"""What blocks count of what they hold, and which networks and tables they refuse."""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load_text
from archcli.measure.params import count_params

STATEFUL = "{kind: rwkv_channel_mix, d_ff: 32}"


@pytest.mark.parametrize("kind", ["normed_stream", "shortcut_moe"])
def test_what_a_layer_holds_and_no_pass_reads_is_counted(kind):
    dense = "ffn: {kind: mlp, d_ff: 8}" + (", dense: {kind: mlp, d_ff: 8}" if kind == "shortcut_moe" else "")
    layer = f"{{kind: {kind}, attention: {{kind: mha, n_heads: 2}}, {dense}"
    sizes = "vocab_size: 8\nd_model: 4\nnorm: rmsnorm\ngroups: [{n_layers: 3, layer: "
    plain = load_text(f"{sizes}{layer}}}}}]", "plain").model
    held = load_text(f"{sizes}{layer}, unread: {{gate: 5}}}}}}]", "held").model
    more = count_params(held).totals["params"] - count_params(plain).totals["params"]
    assert more == 3 * 5


def test_a_network_that_carries_a_state_is_refused_where_none_is_carried():
    layer = f"{{kind: normed_stream, attention: {{kind: mha, n_heads: 2}}, ffn: {STATEFUL}}}"
    text = f"vocab_size: 8\nd_model: 4\nnorm: rmsnorm\ngroups: [{{n_layers: 3, layer: {layer}}}]"
    with pytest.raises(ArchError, match="a network of normed_stream cannot carry a state"):
        load_text(text, "stateful")


def test_a_tied_head_reads_vectors_as_wide_as_the_table():
    embedding = "embedding: {tied: true, width: 2, width_of: all}"
    layer = "{kind: pre_norm, attention: {kind: mha, n_heads: 2}, ffn: null}"
    text = f"vocab_size: 8\nd_model: 4\nnorm: rmsnorm\n{embedding}\ngroups: [{{n_layers: 1, layer: {layer}}}]"
    with pytest.raises(ArchError, match="the head reads vectors of 4, and its tied table has vectors of 2"):
        load_text(text, "narrow")
    assert load_text(text.replace("width_of: all", "width_of: tokens"), "narrow").model.embedding.tied
