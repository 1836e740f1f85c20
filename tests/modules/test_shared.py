"""Blocks that layers of a stack share: stored once, run and counted at every use."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.spec.written import to_mapping, to_yaml
from archcli.modules.models.layers import LayerIndex
from table import every_row

D, WIDE, VOCAB, N = 16, 32, 29, 5
HEADS = {"kind": "mha", "n_heads": 4, "head_dim": 8}
FFN = {"kind": "glu", "d_ff": 24}
CONCAT = {"kind": "concat", "attention": HEADS, "ffn": FFN}
STREAM = {"kind": "pre_norm", "attention": {"kind": "gqa", "n_heads": 4, "n_kv_heads": 2}, "ffn": FFN}
MIXER = {"kind": "mamba2", "n_heads": 4, "head_dim": 8, "state": 4, "chunk": 4}
USE = {"use": "a", "project": True, "mixer": MIXER}
GATED = 3 * D * 24
ATTENTION = 3 * WIDE * 32 + 32 * D
SHARED = WIDE + ATTENTION + D + GATED
"""A concat block: norm, projections from 2 D and back to D, norm, network."""
STREAMED = D + (4 + 2 + 2) * 4 * D + 4 * 4 * D + D + GATED


def of(*layers, shared=None, n_layers=None, **more):
    return {
        "vocab_size": VOCAB,
        "d_model": D,
        "norm": "rmsnorm",
        "embedding": {"tied": True},
        "shared": {"a": CONCAT} if shared is None else shared,
        "groups": [{"n_layers": n_layers or len(layers), "pattern": [*layers]}],
        **more,
    }


ENDS = VOCAB * D + D
PLAIN = {"kind": "pre_norm", "mixer": MIXER}
ZAMBA = of(PLAIN, USE, PLAIN, USE, n_layers=7)
ADAPTED = of(
    {**USE, "adapter_rank": 3},
    {"use": "b"},
    {"use": "b", "adapter_rank": 2, "adapter_targets": ["q", "down"]},
    {"use": "a", "ffn": FFN},
    shared={"a": CONCAT, "b": STREAM},
    n_layers=9,
)


def params(given):
    return archcli.count_params(given).totals["params"]


def test_weights_are_stored_once_and_matrices_of_a_use_every_time():
    layer = params(of(PLAIN, shared={})) - ENDS
    assert params(ZAMBA) == ENDS + SHARED + 7 * layer + 3 * D * D


def test_a_block_of_the_stream_is_the_layer():
    assert params(of({"use": "a"}, n_layers=N, shared={"a": STREAM})) == ENDS + STREAMED
    own = of(STREAM, n_layers=N, shared={})
    used = of({"use": "a"}, n_layers=N, shared={"a": STREAM})
    for count in (archcli.count_flops, archcli.count_kv_cache):
        figures = [
            {key: value for key, value in count(given).totals.items() if "params" not in key}
            for given in (own, used)
        ]
        assert figures[0] == figures[1]


def test_every_use_computes_and_caches():
    four = of(*[{"use": "a", "project": True}] * 4)
    flops, cache = (
        archcli.count_flops(four, seq_len=N).totals["matmul_flops"],
        archcli.count_kv_cache(four, context=N).totals["elements"],
    )
    scores = 2 * 2 * 4 * 8 * N * (N + 1) // 2
    assert flops == 4 * (2 * N * (ATTENTION + GATED + D * D) + scores) + 2 * N * VOCAB * D
    assert cache == 4 * 2 * N * 4 * 8


def test_adapters_are_of_each_use():
    plain = of(*[{"use": "a", "project": True}] * 3)
    adapted = of(*[{"use": "a", "project": True, "adapter_rank": 5}] * 3)
    fused = 5 * D + 5 * 2 * 24
    assert params(adapted) - params(plain) == 3 * (3 * 5 * (WIDE + 32) + fused)
    flops = [archcli.count_flops(given, seq_len=N).totals["matmul_flops"] for given in (plain, adapted)]
    assert flops[1] - flops[0] == 2 * N * (params(adapted) - params(plain))


def test_layers_have_the_facts_of_what_they_use():
    layers = list(LayerIndex(archcli.load(ADAPTED)))
    assert [layer.facts().kind for layer in layers] == ["mha + mamba2", "gqa", "gqa", "mha"]
    assert [layer.yaml_path for layer in layers[1:3]] == ["shared.b", "shared.b"]
    assert [path for path, _ in layers[0].mixers()] == ["shared.a.attention", "groups.0.pattern.0.mixer"]


@pytest.mark.parametrize("given", [ZAMBA, ADAPTED], ids=["zamba", "adapted"])
def test_what_is_written_is_read_again(given):
    model = archcli.load(given)
    assert archcli.load(to_mapping(model)) == model
    assert archcli.load(to_mapping(model.replace(shared={**model.shared}))) == model
    assert "shared:" in to_yaml(model)


def test_a_bare_name_reaches_into_shared_blocks():
    changed = archcli.load(ZAMBA, overrides=["shared.a.ffn.d_ff=40", "head_dim=6"])
    assert changed.shared["a"].ffn.d_ff == 40
    assert changed.shared["a"].attention.head_dim == 6


def test_a_layer_that_all_share_is_no_base_of_one_that_uses_a_block():
    given = of({"use": "a", "project": True}, {"attention": {"n_heads": 2}}, layer={**STREAM})
    model = archcli.load(given)
    assert [type(block).__name__ for block in model.groups[0].pattern] == ["SharedLayer", "PreNorm"]


WRONG = {
    "shared-unknown": (of({"use": "b"}, {"use": "a"}), "groups.0.pattern.0.use"),
    "shared-unused": (of(PLAIN), "shared.a"),
    "shared-nested": (of({"use": "a"}, shared={"a": {"use": "a"}}), "shared.a"),
    "shared-name": (of({"use": "a b"}, shared={"a b": STREAM}), "shared.a b"),
    "shared-project": (of({"use": "a", "project": True}, shared={"a": STREAM}), "groups.0.pattern.0.project"),
    "concat-not-shared": (of(CONCAT, {"use": "a"}), "groups.0.pattern.0.kind"),
    "concat-attention": (
        of({"use": "a"}, shared={"a": {**CONCAT, "attention": {"kind": "linear", "n_heads": 2}}}),
        "shared.a.attention",
    ),
    "concat-head-dim": (
        of({"use": "a"}, shared={"a": {**CONCAT, "attention": {"kind": "mha", "n_heads": 2}}}),
        "shared.a.attention.head_dim",
    ),
    "residual-plain": (
        of({"use": "a"}, shared={"a": {**CONCAT, "dropout": 0.1}}),
        "shared.a.dropout",
    ),
    "adapter-target-unknown": (
        of(
            {"use": "a", "adapter_rank": 2, "adapter_targets": ["q", "down", "gate"]},
            shared={"a": {**STREAM, "ffn": {"kind": "mlp", "d_ff": 9}}},
        ),
        "groups.0.pattern.0.adapter_targets.2",
    ),
    "mtp-shared": (of({"use": "a"}, mtp={"depth": 1}), "mtp"),
}


@every_row("code", WRONG)
def test_what_contradicts_itself_is_refused_at_its_place(code):
    given, path = WRONG[code]
    with pytest.raises(ArchError) as caught:
        archcli.load(given)
    assert [(problem.code, problem.path) for problem in caught.value.problems] == [(code, path)]


@pytest.mark.torch
def test_each_use_of_a_block_has_adapters_of_its_own():
    """As transformers' Zamba has a module for each use; layers 1, 3 and 5 use the block, q is 32 by 32."""
    adapted = archcli.load({**ZAMBA, "lora": {"rank": 2, "targets": ["q", "shared.ffn.down"]}})
    expected = 3 * 2 * (WIDE + 32 + 24 + D)
    assert archcli.count_params(adapted).totals["lora_params"] == expected
    assert sum(p.numel() for p in archcli.build(adapted).parameters() if p.requires_grad) == expected


def test_adapters_of_tied_layers_are_refused():
    given = of({"use": "a", "adapter_rank": 2})
    given["groups"][0]["tie"] = True
    with pytest.raises(ArchError, match="share their adapters"):
        archcli.load(given)


def test_arrays_hold_what_ints_count_of_each_candidate():
    from archcli.wings.shapes.symbolic.sweep import sweep

    sizes = {"groups.0.n_layers": [4, 7, 9], "shared.a.ffn.d_ff": [24, 40, 8]}
    swept = sweep(archcli.load(ZAMBA), sizes, seq_len=N)
    for i, (n_layers, d_ff) in enumerate(zip(*sizes.values(), strict=True)):
        given = {**ZAMBA, "groups": [{**ZAMBA["groups"][0], "n_layers": n_layers}]}
        given["shared"] = {"a": {**CONCAT, "ffn": {**FFN, "d_ff": d_ff}}}
        assert swept.params[i] == params(given)


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.parametrize("given", [ZAMBA, ADAPTED], ids=["zamba", "adapted"])
def test_what_is_built_has_each_weight_once_and_decodes_as_it_runs(given):
    import torch

    model = archcli.build(archcli.load(given)).eval()
    assert sum(p.numel() for p in model.parameters()) == params(given)
    assert len(model.state_dict()) == len(list(model.named_parameters()))
    tokens = torch.arange(22).view(2, 11)
    with torch.no_grad():
        whole = model(tokens)
        logits, cache = model.prefill(tokens[:, :3])
        steps = [logits]
        for i in range(3, 11):
            logits, cache = model.decode(tokens[:, i : i + 1], cache)
            steps.append(logits)
    torch.testing.assert_close(torch.cat(steps, 1), whole[:, 2:], atol=2e-5, rtol=1e-4)


@pytest.mark.torch
def test_a_shared_block_is_the_same_block_written_several_times():
    import torch

    used = archcli.build(archcli.load(of({"use": "a"}, PLAIN, {"use": "a"}, shared={"a": STREAM})))
    own = archcli.build(archcli.load(of(STREAM, PLAIN, STREAM, shared={})))
    state = used.state_dict()
    copies = {name.replace("layers.0.", "layers.2."): x for name, x in state.items() if "layers.0." in name}
    own.load_state_dict({**state, **copies})
    tokens = torch.arange(10).view(2, 5)
    torch.testing.assert_close(used(tokens), own(tokens))


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.torch
@pytest.mark.parametrize("given", [ZAMBA, ADAPTED], ids=["zamba", "adapted"])
def test_torch_and_fvcore_see_every_use(given):
    from asking import ask, failures

    assert failures(ask(archcli.load(given))) == []


@pytest.mark.torch
@pytest.mark.long
def test_it_compiles_into_one_graph():
    import torch

    model, tokens = archcli.build(archcli.load(ADAPTED)), torch.arange(22).view(2, 11)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(tokens), model(tokens))


@pytest.mark.long
@pytest.mark.torch
def test_gradients_are_those_of_all_uses_under_checkpointing():
    import torch
    from torch.utils.checkpoint import checkpoint

    model, tokens = archcli.build(archcli.load(ADAPTED)), torch.arange(22).view(2, 11)
    model(tokens).sum().backward()
    plain = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    for layer in model.layers:
        layer.forward = lambda *args, run=layer.forward: checkpoint(run, *args, use_reentrant=False)
    model(tokens).sum().backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, plain[name])
