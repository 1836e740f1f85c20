"""Rules of low-rank adapters: ranks of some projections and layers, counted and built."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load
from table import every_row

# of Llama 3.1 8B: 32 layers, 4096 wide, keys and values of 1024
Q, V = 4096 + 4096, 4096 + 1024
COUNTED = {
    "none": ("[]", 32 * 16 * (Q + V)),
    "rank": ("[{match: q, rank: 4}]", 32 * (4 * Q + 16 * V)),
    "path": ("[{match: attention.q, rank: 4}]", 32 * (4 * Q + 16 * V)),
    "last": ("[{match: q, rank: 4}, {match: q, rank: 2}]", 32 * (2 * Q + 16 * V)),
    "layers": ("[{match: v, rank: 4, layers: '0-3,7'}]", 32 * 16 * Q + (5 * 4 + 27 * 16) * V),
    "left-out": ("[{match: v, rank: 0, layers: 1-31}]", 32 * 16 * Q + 16 * V),
}


@every_row(("rules", "counted"), COUNTED.values(), ids=COUNTED)
def test_ranks_by_hand(rules, counted):
    model = load("llama-3.1-8b", [f"lora={{rank: 16, targets: [q, v], rules: {rules}}}"]).model
    assert archcli.count_params(model).totals["lora_params"] == counted


REFUSED = {
    "layers": ("[{match: q, rank: 4, layers: first}]", "layers 'first' must be numbers and ranges"),
    "match": ("[{match: x, rank: 4}]", "no projection of this model is called 'x'"),
}


@every_row(("rules", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(rules, message):
    with pytest.raises(ArchError) as caught:
        load("llama-3.1-8b", [f"lora={{rank: 16, rules: {rules}}}"])
    assert message in str(caught.value)


@pytest.mark.torch
def test_the_built_model_has_the_adapters_of_its_layers():
    rules = "[{match: q, rank: 2, layers: '1'}, {match: q, rank: 0, layers: '2'}]"
    sizes = {"n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "head_dim": 8, "d_model": 32, "d_ff": 48}
    small = [f"{name}={size}" for name, size in sizes.items()]
    small += ["vocab_size=53", f"lora={{rank: 4, targets: [q], rules: {rules}}}"]
    model = load("llama-3.1-8b", small).model
    built = archcli.build(model)
    ranks = [weight.shape[0] for name, weight in built.named_parameters() if name.endswith("lora_A.weight")]
    assert ranks == [4, 2]
