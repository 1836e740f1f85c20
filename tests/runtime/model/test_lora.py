"""Adapters run, train and are counted.

Held against merged matrices and their gradients by the chain rule, and against torch's counter.
"""

import copy

import pytest
import torch
from torch import nn

from archcli.modules.adapters.lora import LoRA
from archcli.wings.running.runtime.model.build import build_model
from asking import ask, failures
from zoo import ZOO, assert_close, built, tokens

torch.set_num_threads(1)
RANK, ALPHA = 3, 6.0


def adapted(name, *targets, **fields):
    return ZOO[name].replace(lora=LoRA(rank=RANK, alpha=ALPHA, targets=targets), **fields)


CASES = {
    "q-v": ("llama", "q", "v"),
    "keys alone": ("llama", "k"),
    "every projection": ("gpt2", "all_linear"),
    "untied ends": ("llama", "embedding", "lm_head"),
    "tied ends": ("gemma2", "embedding", "lm_head"),
    "experts": ("mixtral", "gate", "down"),
    "biased experts and a shared one": ("qwen-moe", "all_linear", "router"),
    "latent": ("deepseek", "q_a", "q_b", "kv_a", "kv_b", "o"),
    "absorbed": ("deepseek-absorbed", "kv_b"),
}
every_case = pytest.mark.parametrize("case", CASES)


@pytest.mark.long
@pytest.mark.sample(1)
@every_case
def test_all_witnesses_agree(case):
    assert failures(ask(adapted(*CASES[case]))) == []


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ZOO)
def test_all_witnesses_agree_about_every_family(name):
    assert failures(ask(adapted(name, "all_linear"))) == []


def merged(made, spec):
    """The model without adapters whose matrices are W + (alpha / rank) B A, written out.

    Where each came from.
    """
    state, pairs = dict(made.state_dict()), {}
    for name in [name for name in state if "lora_A" in name or "lora_embedding_A" in name]:
        base = name.replace(".lora_A", "").replace(".lora_embedding_A", "")
        first, second = state.pop(name), state.pop(name.replace("_A.", "_B."))
        lookup = "embedding" in name.rpartition("lora_")[2]
        state[base] = state[base] + ALPHA / RANK * (
            first @ second.transpose(-1, -2) if lookup else second @ first
        )
        pairs[base] = (name, name.replace("_A.", "_B."), first, second, lookup)
    plain = build_model(spec.replace(lora=None))
    plain.load_state_dict(state)
    return plain, pairs


UNTIED = [case for case in CASES if case != "tied ends"]  # a tied head has two matrices once adapted


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("case", UNTIED)
def test_it_computes_what_merged_matrices_compute(case):
    spec = adapted(*CASES[case])
    made, ids = built(spec), tokens()
    assert_close(made(ids), merged(made, spec)[0](ids), 2e-5)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("case", UNTIED)
def test_gradients_are_those_of_the_merged_matrices_by_the_chain_rule(case):
    spec = adapted(*CASES[case])
    made, ids = built(spec), tokens()
    plain, pairs = merged(made, spec)
    made(ids).square().mean().backward()
    plain(ids).square().mean().backward()
    ours, theirs = dict(made.named_parameters()), dict(plain.named_parameters())
    assert pairs
    for base, (a, b, first, second, lookup) in pairs.items():
        whole = ALPHA / RANK * theirs[base].grad
        d_a = whole @ second if lookup else second.transpose(-1, -2) @ whole
        d_b = whole.transpose(-1, -2) @ first if lookup else whole @ first.transpose(-1, -2)
        assert_close(ours[a].grad, d_a, 5e-5)
        assert_close(ours[b].grad, d_b, 5e-5)


def test_a_tied_head_and_its_table_have_an_adapter_each():
    made, ids = built(adapted("gpt2", "embedding", "lm_head")), tokens()
    seen = []
    made.final_norm.register_forward_hook(lambda _, args, out: seen.append(out))
    logits = made(ids)
    table, head = made.embedding.tokens, made.lm_head
    expected = seen[0] @ table.weight.T + ALPHA / RANK * seen[0] @ head.lora_A.weight.T @ head.lora_B.weight.T
    assert_close(logits, expected)


@pytest.mark.sample(1, whole=True)
@every_case
def test_only_adapters_train(case):
    made = built(adapted(*CASES[case]))
    made(tokens()).square().mean().backward()
    for name, parameter in made.named_parameters():
        assert parameter.requires_grad == (parameter.grad is not None) == ("lora_" in name)


@pytest.mark.sample(1, whole=True)
@every_case
def test_fresh_adapters_change_nothing(case):
    spec = adapted(*CASES[case])
    made = build_model(spec)
    plain = build_model(spec.replace(lora=None))
    plain.load_state_dict({name: value for name, value in made.state_dict().items() if "lora_" not in name})
    assert torch.equal(made(tokens()), plain(tokens()))
    factors = {name: bool(value.any()) for name, value in made.named_parameters() if "lora_" in name}
    assert all(
        started != ("lora_B" in name or "lora_embedding_A" in name) for name, started in factors.items()
    )


def test_weights_are_called_as_peft_calls_them():
    names = [
        name
        for name, _ in build_model(
            adapted("llama", "q", "down", "embedding"), device="meta"
        ).named_parameters()
    ]
    assert {name for name in names if "lora" in name} == {
        "embedding.tokens.lora_embedding_A.weight",
        "embedding.tokens.lora_embedding_B.weight",
        *(
            f"layers.{i}.{which}.lora_{side}.weight"
            for i in (0, 1)
            for which in ("attention.q_proj", "ffn.down_proj")
            for side in "AB"
        ),
    }
    assert "layers.0.attention.q_proj.weight" in names


def test_it_prints_as_a_nested_tree():
    lines = [line.strip() for line in str(build_model(adapted("llama", "q"), device="meta")).splitlines()]
    assert {
        "Decoder(",
        "(attention): GroupedQueryAttention(",
        "(lora_A): Linear(in_features=16, out_features=3, bias=False)",
    } <= set(lines)


def test_the_cache_gives_the_same_logits():
    made, ids = built(adapted("llama", "all_linear")), tokens()
    with torch.no_grad():
        cache = made.prefill(ids[:, :6])[1]
        for i in range(6, 9):
            logits, cache = made.decode(ids[:, i : i + 1], cache)
            assert_close(logits[:, 0], made(ids)[:, i])


def test_a_copy_learns_alone():
    made, ids = build_model(adapted("llama", "q", "v")), tokens()
    other = copy.deepcopy(made)
    optimizer = torch.optim.Adam(
        [parameter for parameter in other.parameters() if parameter.requires_grad], lr=0.05
    )
    before = {name: value.clone() for name, value in other.named_parameters()}
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(other(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    moved = {name for name, value in other.named_parameters() if not torch.equal(value, before[name])}
    assert moved == {name for name in before if "lora_" in name}
    assert all(torch.equal(value, before[name]) for name, value in made.named_parameters())


@pytest.mark.long
def test_it_compiles_as_one_graph():
    made, ids = built(adapted("mixtral", "all_linear", "lm_head")), tokens()
    torch._dynamo.reset()
    with torch.no_grad():
        assert_close(torch.compile(made, fullgraph=True, backend="aot_eager")(ids), made(ids))
    torch._dynamo.reset()
