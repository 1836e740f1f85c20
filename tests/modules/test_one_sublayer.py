"""Layers of one sublayer, the key `mixer`, and what a score bias is added to, in all wirings."""

import pytest
import torch

from archcli.errors import ArchError
from archcli.measure.passes import decode_pass, forward_pass
from archcli.modules import (
    GLU,
    Group,
    LinearAttention,
    MultiHeadAttention,
    Parallel,
    PostNorm,
    PreNorm,
    RelativeBuckets,
    ResidualPostNorm,
    RMSNorm,
    Sandwich,
)
from table import every_row
from zoo import D, assert_close, built, model, tokens

torch.set_num_threads(1)
NORM, FFN = RMSNorm(eps=1e-5), GLU(d_ff=20)
WIRINGS = {
    "pre_norm": (PreNorm, 1),
    "post_norm": (PostNorm, 1),
    "sandwich": (Sandwich, 2),
    "norm_after": (ResidualPostNorm, 1),
    "parallel": (Parallel, 1),
    "parallel-two-norms": (lambda **parts: Parallel(n_norms=2, **parts), 1),
}
"""How each is made, and how many norms a sublayer that is alone has."""
PARTS = {
    "attention": ({"attention": MultiHeadAttention(n_heads=4)}, 4 * D * D),
    "mixer": ({"mixer": MultiHeadAttention(n_heads=4)}, 4 * D * D),
    "linear": ({"mixer": LinearAttention(n_heads=4)}, 4 * D * D),
    "ffn": ({"ffn": FFN}, 3 * D * 20),
}


def steps(made, ids, prompt=3):
    with torch.no_grad():
        logits, cache = made.prefill(ids[:, :prompt])
        answers = [logits]
        for i in range(prompt, ids.shape[1]):
            logits, cache = made.decode(ids[:, i : i + 1], cache)
            answers.append(logits)
        return torch.cat(answers, dim=1), made(ids)[:, prompt - 1 :]


@pytest.mark.long
@every_row("wiring", WIRINGS)
@every_row("part", PARTS)
def test_a_layer_of_one_sublayer(part, wiring):
    make, norms = WIRINGS[wiring]
    parts, params = PARTS[part]
    key = next(iter(parts))
    spec = model(make(norm=NORM, **parts), n_layers=2)
    rows = [row for row in forward_pass(spec, 1, 4).rows if row.path.startswith("layers.")]
    assert sum(row.params for row in rows) == 2 * (params + norms * D)
    assert {row.path.split(".")[2] for row in rows} <= {
        key,
        f"{key}_norm",
        f"{key}_post_norm",
        f"{key}_residual",
    }
    assert_close(*steps(built(spec), tokens()))


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("wiring", WIRINGS)
def test_layers_of_one_sublayer_take_turns_with_whole_ones(wiring):
    make, _ = WIRINGS[wiring]
    blocks = [make(norm=NORM, **parts) for parts, _ in PARTS.values()]
    whole = make(norm=NORM, mixer=LinearAttention(n_heads=4), ffn=FFN)
    spec = model(whole).replace(groups=(Group(n_layers=6, pattern=(*blocks, whole)),))
    assert_close(*steps(built(spec), tokens()))


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ({}, "a layer needs attention"),
        (
            {"attention": MultiHeadAttention(n_heads=4), "mixer": MultiHeadAttention(n_heads=4)},
            "attention and mixer are one key under two names",
        ),
    ],
    ids=["nothing", "both"],
)
def test_a_layer_has_one_mixer_and_is_not_empty(parts, what):
    with pytest.raises(ArchError, match=what):
        PreNorm(norm=NORM, **parts)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    "kinds", [("linear", "mha"), ("mha", "linear"), ("ffn", "mha"), ("linear", "ffn", "mha")]
)
def test_a_score_bias_spans_all_tokens_whatever_the_first_layer_keeps(kinds):
    parts = {
        "mha": {"attention": MultiHeadAttention(n_heads=4)},
        "linear": PARTS["linear"][0],
        "ffn": {"ffn": FFN},
    }
    blocks = [PreNorm(norm=NORM, **parts[kind]) for kind in kinds]
    spec = model(*blocks, score_bias=RelativeBuckets())
    (bias,) = (row for row in decode_pass(spec, 1, 100).rows if row.path == "score_bias")
    assert bias.outputs == ((1, 4, 1, 100 + 1),)
    assert_close(*steps(built(spec), tokens()))


def test_a_score_bias_needs_scores():
    with pytest.raises(ArchError, match="no layer has scores to which a bias could be added"):
        model(PreNorm(norm=NORM, attention=LinearAttention(n_heads=4)), score_bias=RelativeBuckets())
