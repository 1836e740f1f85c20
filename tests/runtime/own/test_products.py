"""FLOPs of products that torch's counter misses or counts, each against the arithmetic in the open."""

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.flop_counter import FlopCounterMode

import archcli
from archcli.errors import ArchError
from own_modules import Run, flops


def bf16(*shape):
    return torch.empty(shape, dtype=torch.bfloat16)


GROUPS = torch.tensor([3, 7], dtype=torch.int32)
MISSED = {
    "mv": (torch.mv, (torch.empty(3, 5), torch.empty(5)), 2 * 3 * 5),
    "dot": (torch.dot, (torch.empty(5), torch.empty(5)), 2 * 5),
    "addmv": (torch.addmv, (torch.empty(3), torch.empty(3, 5), torch.empty(5)), 2 * 3 * 5),
    "addbmm": (
        torch.addbmm,
        (torch.empty(3, 7), torch.empty(4, 3, 5), torch.empty(4, 5, 7)),
        2 * 4 * 3 * 5 * 7,
    ),
    "experts of bf16": (
        lambda x, w: torch._grouped_mm(x, w, offs=GROUPS),
        (bf16(7, 16), bf16(2, 16, 24)),
        2 * 7 * 16 * 24,
    ),
    "experts of fp32": (
        lambda x, w: torch._grouped_mm(x, w, offs=GROUPS),
        (torch.empty(7, 16), torch.empty(2, 16, 24)),
        2 * 7 * 16 * 24,
    ),
    "distances": (torch.cdist, (torch.empty(3, 5), torch.empty(4, 5)), 2 * 3 * 4 * 5),
}


@pytest.mark.parametrize("name", MISSED)
def test_products_without_a_formula_in_torch_are_counted(name):
    function, inputs, expected = MISSED[name]
    assert flops(Run(function), *inputs)["matmul_flops"] == expected


def test_a_bilinear_form_multiplies_twice_and_adds_once():
    # for each of 2 rows and 5 outputs, 3 x 4 products of three
    assert (
        flops(nn.Bilinear(3, 4, 5), torch.empty(2, 3), torch.empty(2, 4))["matmul_flops"] == 3 * 2 * 5 * 3 * 4
    )


def test_every_step_of_an_lstm_meets_its_matrices():
    steps, batch, width, hidden = 5, 2, 8, 16
    lstm = nn.LSTM(width, hidden, 2, bidirectional=True)
    first = 4 * hidden * (width + hidden)
    second = 4 * hidden * (2 * hidden + hidden)
    expected = 2 * steps * batch * 2 * (first + second)
    assert flops(lstm, torch.empty(steps, batch, width))["matmul_flops"] == expected
    assert flops(lstm, torch.randn(steps, batch, width), run_on="cpu")["matmul_flops"] == expected


def test_a_fourier_transform_is_no_product():
    x = torch.empty(2, 8, dtype=torch.complex64)
    totals = flops(Run(torch.fft.fft), x)
    # 5 n log2 n, twice
    assert (totals["matmul_flops"], totals["other_flops"]) == (0, 2 * 5 * 8 * 3)


def test_norms_and_places_for_profilers_are_no_products():
    def marked(x):
        with torch.profiler.record_function("here"):
            return nn.functional.cosine_similarity(x, x)

    assert flops(Run(marked), torch.empty(2, 8))["matmul_flops"] == 0


HEADS = tuple(torch.empty(2, 3, 6, 8) for _ in range(3))
WHOLE = 2 * 2 * (2 * 3) * 6 * 6 * 8
"""FLOPs of scores and of what they mix, for 6 x 6 pairs of 2 x 3 heads of 8."""


@pytest.mark.parametrize(
    ("options", "pairs"),
    [
        ({}, 36),
        ({"is_causal": True}, 1 + 2 + 3 + 4 + 5 + 6),
        ({"attn_mask": torch.ones(6, 6, dtype=torch.bool).tril().triu(-1)}, 6 + 5),
        ({"attn_mask": torch.zeros(6, 6).masked_fill(torch.eye(6, dtype=torch.bool), -torch.inf)}, 30),
    ],
    ids=["no mask", "causal", "a band", "additive"],
)
def test_attention_in_one_kernel_is_counted_for_its_mask(options, pairs):
    module = Run(lambda *qkv: nn.functional.scaled_dot_product_attention(*qkv, **options))
    totals = flops(module, *HEADS)
    assert totals["matmul_flops"] == WHOLE * pairs // 36
    assert totals["executed_flops"] == WHOLE


def test_flex_attention_counts_all_pairs_and_says_so():
    module = Run(lambda *qkv: flex_attention(*qkv, score_mod=lambda score, *_: score * 2))
    report = archcli.count_flops(module, HEADS)
    assert report.totals["matmul_flops"] == WHOLE
    assert "not known" in " ".join(report.notes)


class Chosen(nn.Module):
    """Attention whose mask a weight decides, all of it or the first line."""

    def __init__(self, *, whole):
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(6, 6))
        self.whole = whole

    def forward(self, q, k, v):
        mask = torch.ones(6, 6, dtype=torch.bool)
        if self.whole:
            mask = self.scores > 0
        else:
            mask[0].copy_(self.scores[0] > 0)
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("whole", [True, False])
def test_a_mask_that_weights_decide_is_not_known(whole):
    report = archcli.count_flops(Chosen(whole=whole), HEADS)
    assert report.totals["matmul_flops"] == WHOLE
    assert "not known" in " ".join(report.notes)


def test_a_product_without_a_formula_is_an_error_that_names_it():
    module = nn.Sequential(nn.Linear(4, 4), Run(torch.linalg.inv))
    with pytest.raises(ArchError, match=r"no formula for linalg_inv_ex in 1 \(x1\)"):
        flops(module, torch.empty(4, 4))
    totals = flops(module, torch.empty(4, 4), allow_uncounted=True)
    assert totals["uncounted"] == [{"op": "linalg_inv_ex", "path": "1", "calls": 1}]
    assert totals["uncounted_share"] == 1 / 2
    assert totals["matmul_flops"] == 2 * 4 * 4 * 4


MODULES = {
    "Linear": (lambda: nn.Linear(8, 4), (torch.empty(3, 8),)),
    "Conv2d": (lambda: nn.Conv2d(4, 8, 3, stride=2), (torch.empty(2, 4, 9, 9),)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 6, 3), (torch.empty(2, 4, 9),)),
    "einsum": (lambda: Run(lambda a, b: torch.einsum("bij,bkj->bik", a, b)), (torch.empty(2, 3, 4),) * 2),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        ),
        (torch.empty(2, 3, 16, 16),),
    ),
    "Transformer": (
        lambda: nn.Transformer(16, 4, 2, 2, 32, batch_first=True),
        (torch.empty(2, 5, 16), torch.empty(2, 4, 16)),
    ),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(16, 4), (torch.empty(5, 2, 16),) * 3),
}


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", MODULES)
def test_forwards_equal_torchs_counter_on_meta(name):
    make, inputs = MODULES[name]
    module = make().eval().to("meta")
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            module(*[x.to("meta") for x in inputs])
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert flops(module, *inputs)["executed_flops"] == counter.get_total_flops()


def test_the_backward_is_counted_where_a_gradient_is_asked_for():
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    first, second = 2 * 3 * 8 * 16, 2 * 3 * 16 * 4
    # the first has no gradient of its input
    assert flops(module, torch.empty(3, 8), phase="train")["matmul_flops"] == 2 * first + 3 * second
    module[0].requires_grad_(False)
    assert flops(module, torch.empty(3, 8), phase="train")["matmul_flops"] == first + 2 * second
