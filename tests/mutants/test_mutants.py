"""Tests that can fail.

Every broken formula turns a check of the suite red, and unbroken all of them are green.
"""

import json
from functools import cache
from pathlib import Path

import pytest
import torch

from archcli.load.source import load
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.measure.passes import forward_pass
from archcli.modules import LinearScaling, LongRopeScaling, NTKScaling
from archcli.modules.spec.request import Request
from archcli.ops import (
    Bidirectional,
    BlockSparse,
    Causal,
    Chunked,
    Dilated,
    Fixed,
    SlidingWindow,
    Strided,
    WindowAndGlobal,
)
from asking import ask
from gradients import CHECKS as GRADIENTS
from mutants import of_modules, of_ops, of_recurrent
from ops.cases import CASES
from ops.checks import CHECKS
from table import sampled_rows
from wirings.checks import CHECKS as WIRING
from wirings.recurrent import CHECKS as RECURRENT
from zoo import ZOO, built, tokens

torch.set_num_threads(1)
MUTANTS = [*of_ops.MUTANTS, *of_modules.MUTANTS, *of_recurrent.MUTANTS]
FIGURES = json.loads((Path(__file__).parents[1] / "oracle" / "figures.json").read_text())["models"]


def ops(name):
    for case in CASES.values():
        if type(case.op).__name__ == name:
            for check in CHECKS:
                check(case)


@cache
def preset(name):
    return load(name).model


def oracle(name):
    """Parameters, FLOPs and cached elements that transformers' class has."""
    truth, model = FIGURES[name], preset(name)
    totals = count_params(model).totals
    assert (totals["params"], totals["active_params"]) == (truth["params"], truth["active_params"])
    for length, flops in truth["flops"].items():
        assert count_flops(model, Request(seq_len=int(length)), mask="dense").totals["matmul_flops"] == flops
    for length, elements in truth["kv_elements"].items():
        assert count_kv_cache(model, int(length)).totals["elements"] == elements


def witness(name):
    verdict = ask(ZOO[name])
    assert verdict.ok, [finding for finding in verdict.results if not finding.ok]


def masks():
    """Pairs against one by one, and what a covered set of keys leaves unsaid."""
    for mask, sees in SEEN:
        for past in range(1 if isinstance(mask, WindowAndGlobal) else 5):
            for new in range(1, 8):
                seen = [[sees(query, key) for key in range(past + new)] for query in range(past, past + new)]
                said = [
                    [bool(mask.allows(query, key)) for key in range(past + new)]
                    for query in range(past, past + new)
                ]
                assert said == seen
                assert mask.pairs(new, past, past + new) == sum(map(sum, seen))
                if mask.covers(new, past + new):
                    assert sum(map(sum, seen)) == sum(
                        past + i + 1 if mask.causal else past + new for i in range(new)
                    )


SEEN = [
    (Bidirectional(), lambda query, key: True),
    (Causal(), lambda query, key: key <= query),
    (SlidingWindow(3), lambda query, key: 0 <= query - key < 3),
    (Chunked(3), lambda query, key: key <= query and query // 3 == key // 3),
    (Dilated(2, 2), lambda query, key: query - key in (0, 2)),
    (Strided(3), lambda query, key: key <= query and (query - key < 3 or (query - key) % 3 == 0)),
    (Fixed(3, 1), lambda query, key: key <= query and (query // 3 == key // 3 or key % 3 == 2)),
    # blocks of 2 tokens: the query's and, of those before, every second
    (
        BlockSparse(2, 1, 2),
        lambda query, key: key <= query and (query // 2 == key // 2 or (key // 2) % 2 == 1),
    ),
    (WindowAndGlobal(1, 2), lambda query, key: abs(query - key) <= 1 or query < 2 or key < 2),
]


def absorbed():
    rows = {row.path for row in forward_pass(ZOO["deepseek-absorbed"], 1, 3).rows}
    assert "layers.0.attention.q_absorb" in rows


def prefill():
    made = built(ZOO["llama"])
    assert made.prefill(tokens())[0].shape == (2, 1, 29)


def frequencies(scaling, expected):
    """Of 4 pairs at theta 100, 64 tokens."""
    got = scaling.frequencies(torch, 100.0, 8, torch.arange(64)).tolist()
    assert got == pytest.approx(expected, rel=1e-5)


PLAIN = [100 ** (-i / 4) for i in range(4)]
SUITES = {
    "ops": ops,
    "oracle": oracle,
    "witness": witness,
    "wiring": lambda name: (WIRING | RECURRENT)[name](),
    "masks": masks,
    "gradients": lambda name: GRADIENTS[name](),
    "absorbed": absorbed,
    "prefill": prefill,
    "linear": lambda: frequencies(LinearScaling(factor=4.0), [f / 4 for f in PLAIN]),
    "ntk": lambda: frequencies(NTKScaling(factor=4.0), [(100 * 4 ** (8 / 6)) ** (-i / 4) for i in range(4)]),
    "longrope": lambda: frequencies(
        LongRopeScaling(
            factor=4.0, original_max_seq_len=16, short_factor=(1.0,) * 4, long_factor=(1.0, 2.0, 4.0, 8.0)
        ),
        [f / 2**i for i, f in enumerate(PLAIN)],
    ),
}


def run(suite):
    kind, _, name = suite.partition(".")
    with torch.no_grad():
        SUITES[kind](*([name] if name else []))


def is_red(suite):
    try:
        run(suite)
    except Exception:  # noqa: BLE001
        return True
    return False


@sampled_rows("suite", sorted({suite for mutant in MUTANTS for suite in mutant.suites}), 4)
def test_green_as_it_is(suite):
    if suite.startswith("witness"):
        witness(suite.partition(".")[2])
    else:
        run(suite)


def survives(mutant, monkeypatch):
    """Whether all checks stay green with this formula broken."""
    old = mutant.owner.__dict__[mutant.name]
    with monkeypatch.context() as patch:
        patch.setattr(mutant.owner, mutant.name, mutant.broken(old))
        return not any(map(is_red, mutant.suites))


@pytest.mark.long
def test_red_when_broken(monkeypatch):
    """`pytest -n0 -s tests/mutants` prints the share of them that a check notices."""
    survivors = [mutant.title for mutant in MUTANTS if survives(mutant, monkeypatch)]
    killed = len(MUTANTS) - len(survivors)
    share = f"{killed} of {len(MUTANTS)} mutants turn a check red: {100 * killed / len(MUTANTS):.1f}%"
    print(share)  # noqa: T201 - the figure that a change of the checks is measured by
    assert survivors == [], share


def test_every_op_is_mutated_in_every_way_it_has():
    mutated = {(mutant.owner, mutant.name) for mutant in MUTANTS}
    for cls in of_ops.vocabulary():
        # what a class inherits is mutated where it is stated
        for method in {"shape", "parts", "run"} & vars(cls).keys():
            assert (cls, method) in mutated or (method == "parts" and cls.zero_cost_reason)
