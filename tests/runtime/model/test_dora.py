"""Adapters of DoRA: held against matrices with the direction and the length that the paper gives them."""

import pytest
import torch
from torch.nn.functional import normalize
from torch.utils.flop_counter import FlopCounterMode

import archcli
from archcli.errors import ArchError
from archcli.measure.passes import train_pass
from archcli.modules.adapters.lora import LoRA
from archcli.wings.running.runtime.model.build import build_model
from zoo import ZOO, assert_close, built, tokens

torch.set_num_threads(1)
RANK, ALPHA = 3, 6.0
CASES = {
    "every projection": ("llama", "all_linear"),
    "biased": ("gpt2", "all_linear"),
    "one A": ("llama", "q+k+v"),
    "head": ("llama", "lm_head"),
}
every_case = pytest.mark.parametrize("case", CASES)


def dora(name, *targets, **fields):
    return ZOO[name].replace(lora=LoRA(rank=RANK, alpha=ALPHA, targets=targets, dora=True), **fields)


def merged(made, spec):
    """The model whose matrices are m V / |V| for V = W + s B A; and for each W its V, m, B and A."""
    state, parts = dict(made.state_dict()), {}
    firsts = {name: weight for name, weight in state.items() if name.endswith("lora_A.weight")}
    for name in [name for name in state if name.endswith("lora_magnitude_vector.weight")]:
        base = name.replace("lora_magnitude_vector.", "")
        a = firsts.get(base.replace("weight", "lora_A.weight"))
        if a is None:  # the one of q is that of k and v
            a = firsts[
                base.replace("k_proj", "q_proj")
                .replace("v_proj", "q_proj")
                .replace("weight", "lora_A.weight")
            ]
        b, m = state.pop(base.replace("weight", "lora_B.weight")), state.pop(name)
        v = state[base] + ALPHA / RANK * b @ a
        state[base], parts[base] = m[:, None] * normalize(v, dim=1), (v, m, b, a)
    plain = build_model(spec.replace(lora=None))
    plain.load_state_dict({name: weight for name, weight in state.items() if name not in firsts})
    return plain, parts


@every_case
def test_it_computes_what_matrices_of_these_lengths_compute(case):
    spec = dora(*CASES[case])
    made, ids = built(spec), tokens()
    assert_close(made(ids), merged(made, spec)[0](ids), 5e-5)


@every_case
def test_no_gradient_flows_through_the_norm(case):
    spec = dora(*CASES[case])
    made, ids = built(spec), tokens()
    plain, parts = merged(made, spec)
    made(ids).square().mean().backward()
    plain(ids).square().mean().backward()
    ours, theirs = dict(made.named_parameters()), dict(plain.named_parameters())
    assert parts
    for base, (v, m, _, a) in parts.items():
        whole = theirs[base].grad
        length = v.norm(dim=1)
        assert_close(
            ours[base.replace("weight", "lora_magnitude_vector.weight")].grad,
            (whole * v).sum(1) / length,
            1e-4,
        )
        d_b = ALPHA / RANK * ((m / length)[:, None] * whole) @ a.T
        assert_close(ours[base.replace("weight", "lora_B.weight")].grad, d_b, 1e-4)


@every_case
def test_fresh_adapters_change_nothing(case):
    spec = dora(*CASES[case])
    made, plain = build_model(spec), build_model(spec.replace(lora=None))
    plain.load_state_dict({name: value for name, value in made.state_dict().items() if "lora_" not in name})
    assert_close(made(tokens()), plain(tokens()), 1e-5)


@every_case
def test_training_costs_what_torch_counts(case):
    spec = dora(*CASES[case])
    made = build_model(spec, device="meta", attention="eager")
    ids = torch.zeros(2, 5, dtype=torch.int64, device="meta")
    with FlopCounterMode(display=False) as counter:
        out = made(ids)
        out.backward(torch.empty_like(out))
    counted = train_pass(spec, 2, 5)
    assert counted.flops(unmasked=True)[0] == counter.get_total_flops()
    assert counted.params() == sum(parameter.numel() for parameter in made.parameters())


def test_it_trains_what_peft_counts_on_llama():
    """Adapters of rank 16: 41,943,040 of A and B, and 43,008 outputs in each of 32 layers."""
    lora = "lora={rank: 16, targets: [all_linear], dora: true}"
    totals = archcli.count_params(archcli.load("llama-3.1-8b", overrides=[lora])).totals
    assert totals["trainable_params"] == 43_319_296 == 41_943_040 + 32 * 43_008


@pytest.mark.parametrize(
    ("name", "target"), [("mixtral", "gate"), ("gpt2", "embedding"), ("gpt2", "lm_head")]
)
def test_what_has_no_rows_of_its_own_is_refused(name, target):
    (conflict,) = dora(name, target).lora.check_model(ZOO[name])
    assert (conflict.code, conflict.path) == ("lora-dora-target", "lora.dora")


def test_a_split_matrix_is_refused():
    with pytest.raises(ArchError, match="norms of DoRA are of whole matrices"):
        archcli.count_memory(dora("llama", "q"), "train", tp=2, seq_len=8)
