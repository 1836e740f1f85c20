"""Mutants of recurrent layers: the mistakes that calculators and ports of them make."""

from dataclasses import replace

from archcli.modules.positions.position import NoPosition
from archcli.modules.recurrent import decaying as retention
from archcli.modules.recurrent.decaying import Retention
from archcli.modules.recurrent.gated_norm import GatedNorm
from archcli.modules.recurrent.mamba import Mamba2
from archcli.ops import CausalConv1d, HeadDecay, HeadSkip, StateScan, StepSize
from archcli.ops.recurrent import causal_conv, linear_attend, mlstm_scan, state_scan
from mutants.mutant import Mutant, changed

GATED = ("wiring.retention-gated",)
AFTER = ("wiring.mamba2-gate-after",)


def without_decay(old):
    return lambda torch, q, k, v, decay, state: old(torch, q, k, v, 0 * decay, state)


def scores_per_head(old):
    """The scan's parts with the scores computed for every head, as torch's counter sees transformers'."""

    def parts(self, q, v):
        scores, *rest = old(self, q, v)
        per_group = v[2] // q[2]
        return replace(scores, flops=scores.flops * per_group, executed=scores.executed * per_group), *rest

    return parts


def window_of_one_less(old):
    return lambda elements: old(elements - 1)


def unshifted(old):
    """A convolution whose taps are one token late."""

    def run(self, torch, weights, x, *window):
        y, *kept = old(self, torch, weights, x, *window)
        return torch.cat([0 * y[:, :1], y[:, :-1]], dim=1), *kept

    return run


def unkept(old):
    """A chunk of an mLSTM that divides by its own scores alone, not by what came before as well."""

    def chunk(torch, heads, before):
        state, keys, m = before
        return old(torch, heads, (state, 0 * keys, m))

    return chunk


def unbounded(old):
    return lambda torch, sums, m: sums.abs()


def normalized_in_chunks(old):
    return lambda q, k, v, outer, total: old(q, k, v, outer, 0 * total)


def of_first_layer(old):
    return lambda self, torch, weights, v: old(replace(self, layer=0), torch, weights, v)


def together(old):
    return lambda norm, n_heads: norm


MUTANTS = [
    Mutant("an mLSTM whose chunks forget n", mlstm_scan, "_chunk", unkept, ("ops.MLSTMScan",)),
    Mutant("an mLSTM divided by less than 1", mlstm_scan, "_divisor", unbounded, ("ops.MLSTMScan",)),
    Mutant("chunks that forget z", linear_attend, "_chunk", normalized_in_chunks, ("ops.LinearAttend",)),
    Mutant("decays alike in all layers", HeadDecay, "run", of_first_layer, ("ops.HeadDecay",)),
    Mutant("heads normalized together", retention, "of_heads", together, ("wiring.retention",)),
    Mutant("fixed decays for a token's", Retention, "forward", changed(decay="fixed"), GATED),
    Mutant("gates at full temperature", Retention, "forward", changed(temperature=1.0), GATED),
    Mutant("keys that are not turned", Retention, "forward", changed(position=NoPosition()), GATED),
    Mutant("scores of a scan per head", StateScan, "_chunks", scores_per_head, ("ops.StateScan",)),
    Mutant("a chunk without decay", state_scan, "_chunk", without_decay, ("ops.StateScan",)),
    Mutant("a step without decay", state_scan, "_step", without_decay, ("ops.StateScan",)),
    Mutant(
        "a state that takes in nothing",
        state_scan,
        "_add_products",
        lambda old: lambda torch, state, k, v: state,
        ("ops.StateScan",),
    ),
    Mutant("K - 1 inputs", causal_conv, "_window", window_of_one_less, ("ops.CausalConv1d",)),
    Mutant("taps one token late", CausalConv1d, "run", unshifted, ("ops.CausalConv1d", "wiring.mamba2")),
    Mutant("gate after for before", GatedNorm, "forward", changed(gate="after"), ("wiring.mamba2",)),
    Mutant(
        "gate before for after", GatedNorm, "forward", changed(gate="before"), ("wiring.mamba2-gate-after",)
    ),
    Mutant("a norm of one group", GatedNorm, "forward", changed(groups=1), ("wiring.mamba2-gate-after",)),
    Mutant("one group of keys", Mamba2, "forward", changed(n_groups=1), ("wiring.mamba2",)),
    Mutant("steps without limit", Mamba2, "forward", changed(step_limit=None), ("wiring.mamba2-biased",)),
    Mutant("no bias of projections", Mamba2, "forward", changed(bias=False), ("wiring.mamba2-biased",)),
    Mutant(
        "a skip of one weight",
        HeadSkip,
        "run",
        lambda old: lambda self, torch, weights, y, x: y + x,
        ("ops.HeadSkip", "wiring.mamba2"),
    ),
    Mutant(
        "steps without softplus",
        StepSize,
        "run",
        lambda old: lambda self, torch, weights, x: (x, -weights["A_log"].exp() * x),
        ("ops.StepSize", "wiring.mamba2"),
    ),
]
