"""Contradictions in mixers without heads, and in networks that carry a state."""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load_text
from archcli.measure.params import count_params

GLU = "{kind: glu, d_ff: 8}"
MIX = "{kind: rwkv_channel_mix, d_ff: 8}"
MOE = "n_experts: 2, top_k: 1"
WRONG = {
    "heads-divide-channels": "mixer: {kind: mamba, d_inner: 9, n_heads: 2}",
    "blocks-divide-width": "mixer: {kind: rg_lru, width: 9, n_blocks: 2}",
    "expert-without-state": f"ffn: {{kind: moe, {MOE}, expert: {MIX}}}",
    "beside-without-state": f"kind: sandwich, ffn: {GLU}, beside: {MIX}",
    "adapter-without-state": f"kind: post_norm, norm: layernorm, ffn: {GLU}, adapter: {MIX}",
}


def layer(text):
    kind = "" if "kind: post_norm" in text or "kind: sandwich" in text else "kind: pre_norm, "
    return f"vocab_size: 8\nd_model: 8\nnorm: rmsnorm\ngroups: [{{n_layers: 1, layer: {{{kind}{text}}}}}]\n"


@pytest.mark.parametrize("code", WRONG)
def test_what_contradicts_itself_is_refused_at_its_place(code):
    with pytest.raises(ArchError) as caught:
        load_text(layer(WRONG[code]), "f")
    assert [problem.code for problem in caught.value.problems] == [code]


def test_a_shared_expert_carries_no_state():
    with pytest.raises(ArchError, match="an expert cannot carry a state from token to token"):
        load_text(layer(f"ffn: {{kind: moe, {MOE}, expert: {GLU}, shared: {MIX}}}"), "f")


def test_the_rank_of_step_sizes_follows_from_the_width():
    """D / 16, rounded up."""
    texts = [layer(f"mixer: {{kind: mamba, d_inner: 8{rank}}}") for rank in ("", ", dt_rank: 1")]
    sizes = [load_text(text, "f").model for text in texts]
    assert sizes[0].groups[0].layer.mixer.dt_rank is None
    assert count_params(sizes[0]).totals == count_params(sizes[1]).totals
