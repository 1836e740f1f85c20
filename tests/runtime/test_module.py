"""The built model is an ordinary nn.Module: printed, saved, hooked, taken apart, checkpointed, trained, copied, on meta, in bf16."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from archcli.measure.passes import forward_pass
from archcli.runtime.build import build_model, set_expert_form
from runtime.zoo import ZOO, assert_close, built, tokens

torch.set_num_threads(1)
FAMILIES = pytest.mark.parametrize("name", ZOO)
MIXTURES = [name for name, spec in ZOO.items() if "experts" in {row.group for row in forward_pass(spec, 1, 2).rows}]


def loss_of(made, ids):
    return nn.functional.cross_entropy(made(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def grads_of(made, ids):
    made.zero_grad()
    loss_of(made, ids).backward()
    return {name: parameter.grad.clone() for name, parameter in made.named_parameters()}


def leaves(made):
    return {name: module for name, module in made.named_modules() if not list(module.children())}


def test_it_prints_as_a_nested_tree():
    text = str(build_model(ZOO["llama"], device="meta"))
    assert text.startswith("Decoder(\n")
    for line in (
        "  (layers): ModuleList(",
        "    (0-1): 2 x PreNorm(",
        "      (attention_norm): RMSNorm((16,), eps=1e-06, elementwise_affine=True)",
        "        (q_proj): Linear(in_features=16, out_features=24, bias=False)",
        "  (lm_head): Linear(in_features=16, out_features=29, bias=False)",
    ):
        assert line in text


def test_weighted_operations_are_torchs_own_modules():
    kinds = {type(module) for name in ("llama", "gpt2") for module in leaves(build_model(ZOO[name], device="meta")).values()}
    assert kinds == {nn.Embedding, nn.Linear, nn.RMSNorm, nn.LayerNorm}


@FAMILIES
def test_state_dict_goes_round(name):
    made, ids, file = built(ZOO[name]), tokens(), io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    other = build_model(ZOO[name])
    result = other.load_state_dict(torch.load(file, weights_only=True))
    assert (result.missing_keys, result.unexpected_keys) == ([], [])
    assert torch.equal(made(ids), other(ids))


@FAMILIES
def test_parameters_are_named_as_the_rows(name):
    rows = {f"{row.path}.{weight}" for row in forward_pass(ZOO[name], 1, 2).rows for weight in row.weights}
    assert rows <= {parameter for parameter, _ in build_model(ZOO[name], device="meta").named_parameters()}


@FAMILIES
def test_hooks_fire_once_on_every_leaf(name):
    made, fired = built(ZOO[name]), []
    for path, leaf in leaves(made).items():
        leaf.register_forward_hook(lambda *_, path=path: fired.append(path))
    made(tokens())
    borrowed = {"layers.0.attention.kv_b_proj"} if name == "deepseek-absorbed" else set()
    assert sorted(fired) == sorted(set(leaves(made)) - borrowed)


@FAMILIES
def test_hooks_fire_on_every_node(name):
    made, fired = built(ZOO[name]), []
    nodes = {path: node for path, node in made.named_modules() if list(node.children()) and not isinstance(node, nn.ModuleList)}
    for path, node in nodes.items():
        node.register_forward_hook(lambda *_, path=path: fired.append(path))
    made(tokens())
    assert sorted(fired) == sorted(nodes)


@FAMILIES
def test_a_layer_runs_alone(name):
    made, seen = built(ZOO[name]), {}
    made.layers[0].register_forward_hook(lambda _, args, out: seen.update(into=args[0], out=out[0]))
    made(tokens())
    alone, kept = made.layers[0](seen["into"])
    assert kept is None
    assert_close(alone, seen["out"], 0.0)
    assert made.layers[0].ffn(seen["into"]).shape == seen["into"].shape


@FAMILIES
def test_activation_checkpointing_gives_the_same_gradients(name):
    made, ids = built(ZOO[name]), tokens()
    plain = grads_of(made, ids)
    for layer in made.layers:
        layer.forward = lambda *args, run=layer.forward: checkpoint(run, *args, use_reentrant=False)
    for parameter, gradient in grads_of(made, ids).items():
        assert_close(gradient, plain[parameter], 1e-6)


@FAMILIES
def test_training_lowers_the_loss_and_reaches_every_parameter(name):
    torch.manual_seed(0)
    made, ids = build_model(ZOO[name]), tokens(4, 8)
    optimizer = torch.optim.AdamW(made.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = loss_of(made, ids)
        loss.backward()
        assert all(parameter.grad is not None for parameter in made.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@FAMILIES
def test_a_copy_is_the_same_and_its_own(name):
    made, ids = built(ZOO[name]), tokens()
    logits, twin = made(ids), copy.deepcopy(made)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(made(ids), logits)
    assert not torch.equal(twin(ids), logits)


@FAMILIES
def test_meta_allocates_nothing_and_runs(name):
    made = build_model(ZOO[name], device="meta")
    assert {tensor.device.type for tensor in made.state_dict().values()} == {"meta"}
    logits = made(tokens().to("meta"))
    assert (logits.device.type, tuple(logits.shape)) == ("meta", (2, 9, 29))


@FAMILIES
def test_bf16_runs_and_is_near(name):
    made, ids = built(ZOO[name]), tokens()
    low = copy.deepcopy(made).bfloat16()
    with torch.no_grad():
        logits = low(ids)
        prefilled, cache = low.prefill(ids[:, :5])
        decoded, cache = low.decode(ids[:, 5:6], cache)
    assert {logits.dtype, prefilled.dtype, decoded.dtype} == {torch.bfloat16}
    assert {entry.dtype for layer in cache.layers[0] for entry in layer} == {torch.bfloat16}
    # a router may choose another expert in low precision; everything else stays near
    near = (logits.float() - made(ids)).abs().mean() / made(ids).abs().mean()
    assert near < (0.5 if name in MIXTURES else 0.05)


@FAMILIES
def test_built_in_bf16_is_bf16_throughout(name):
    made = build_model(ZOO[name], dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in made.parameters()} == {torch.bfloat16}
    assert made(tokens()).dtype == torch.bfloat16
    assert torch.get_default_dtype() == torch.float32


@FAMILIES
def test_fused_and_eager_attention_agree(name):
    fused, ids = built(ZOO[name]), tokens()
    eager = built(ZOO[name], attention="eager")
    assert_close(fused(ids), eager(ids))


@pytest.mark.parametrize("name", MIXTURES)
def test_both_forms_of_experts_agree(name):
    made, ids = built(ZOO[name]), tokens()
    grouped, gradients = made(ids), grads_of(made, ids)
    set_expert_form(made, "gather")
    assert_close(made(ids), grouped)
    for parameter, gradient in grads_of(made, ids).items():
        assert_close(gradient, gradients[parameter])


def test_absorbed_latent_attention_is_the_naive_one():
    spec = ZOO["deepseek-absorbed"]
    naive = spec.model_copy(update={"groups": (spec.groups[0].model_copy(update={"pattern": (_naive(spec.groups[0].pattern[0]),)}),)})
    absorbed, other = built(spec), build_model(naive)
    other.load_state_dict(absorbed.state_dict())
    assert_close(absorbed(tokens()), other(tokens()))


def _naive(block):
    return block.model_copy(update={"attention": block.attention.model_copy(update={"form": "naive"})})


def test_weights_start_such_that_the_model_is_sane():
    torch.manual_seed(0)
    for name, spec in ZOO.items():
        made = build_model(spec)
        assert all(torch.isfinite(tensor).all() for tensor in [*made.parameters(), *made.buffers()]), name
        assert made(tokens()).std() < 8, name
