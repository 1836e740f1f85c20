"""What the backward of one rank's share keeps is what torch's autograd saves of the share as built."""

import pytest

from archcli.load.source import load
from archcli.modules.tensor_parallel.shard import shard
from archcli.wings.running.runtime.memory.models import WitnessSetting
from kept_compared import differences, saved_by_row

MODELS = {
    "gpt2": ["n_layers=4"],
    "llama-3.2-1b": ["n_layers=4"],
    "olmo-2-7b": ["n_layers=4"],  # norms that gather all heads
    "mixtral-8x7b": ["n_layers=4"],
    "qwen1.5-moe-a2.7b": ["n_layers=4"],  # shared experts with a gate
}
PLANS = ({"tp": 2}, {"tp": 2, "sp": True}, {"ep": 4})
PAIRS = [
    (name, plan) for name in MODELS for plan in PLANS if "ep" not in plan or "moe" in name or "mix" in name
]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "plan"), PAIRS)
def test_kept_bytes_of_a_rank(name, plan):
    part = shard(load(name, MODELS[name]).model, **plan)
    assert differences(part, 2, 64, WitnessSetting()) == {}


@pytest.mark.long
def test_sequence_parallelism_keeps_less():
    """Residuals have half of the tokens; what a split module reads is gathered, and kept as it is read."""
    model = load("llama-3.2-1b", MODELS["llama-3.2-1b"]).model
    split, tokens = (saved_by_row(shard(model, 2, sp=sp), 2, 64, WitnessSetting()) for sp in (False, True))
    whole = 4 * 2 * 64 * 2048 * 2  # layers, sequences, tokens, width, bytes
    assert (split["layers.*.ffn_residual"], tokens["layers.*.ffn_residual"]) == (whole, whole // 2)
    assert tokens["layers.*.ffn_gather"] == whole
    assert split["layers.*.ffn_norm"] - tokens["layers.*.ffn_norm"] == whole + 4 * 2 * 64 * 4 // 2
