"""Multi-token prediction against the equations of DeepSeek-V3, and its cost apart from the model.

arXiv:2412.19437 section 2.2.
"""

import json
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params, prediction_rows
from archcli.measure.passes import forward_pass, train_pass
from archcli.modules import (
    GLU,
    CrossEntropy,
    Embedding,
    Head,
    MultiTokenPrediction,
    PreNorm,
    RMSNorm,
    substitute,
)
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.model.build import build_model
from asking import ask, failures
from zoo import DEEPSEEK, RMS, D, V, assert_close, built, gqa, mla, model, tokens

torch.set_num_threads(1)
DENSE = PreNorm(attention=gqa(), ffn=GLU(d_ff=20), norm=RMS)
SPARSE = PreNorm(attention=mla(q_lora_rank=6), ffn=DEEPSEEK, norm=RMS)
OTHER = PreNorm(attention=gqa(window=3), ffn=GLU(d_ff=9), norm=RMS)
COUNTED = {
    "deepseek": model(DENSE, SPARSE, mtp=MultiTokenPrediction(norm=RMS)),
    "two": model(
        DENSE,
        mtp=MultiTokenPrediction(depth=2, norm=RMSNorm(eps=0.1), loss_weight=0.7),
        loss=CrossEntropy(z_loss=0.1),
        head=Head(scale=0.5),
    ),
    "tied": model(
        DENSE,
        mtp=MultiTokenPrediction(depth=3, layer=OTHER, norm=RMS),
        embedding=Embedding(tied=True, scale=2.0),
    ),
}
EVERY = pytest.mark.parametrize("name", COUNTED)


def rms(x, gain, eps):
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * gain


def by_the_paper(spec, made, ids, follow):
    """Equations 21 to 25 over t_1 … t_T and t_T+1, with the weights of the built model.

    Its layers are held against others elsewhere.
    """
    text = torch.cat([ids, follow[:, -1:]], dim=1)
    length, eps, seen = ids.shape[1], spec.mtp.norm.eps, []
    made.layers[-1].register_forward_hook(lambda _, args, out: seen.append(out[0]))
    logits = made(ids)
    table = made.embedding.tokens.weight
    matrix = table if spec.embedding.tied else made.lm_head.weight
    h, losses = seen[0], []
    for k, part in enumerate(made.mtp, start=1):
        ahead = table[text[:, k:length]] * (spec.embedding.scale or 1.0)  # Emb(t_i+k) of i = 1 … T-k
        both = torch.cat(
            [rms(ahead, part.enorm.weight, eps), rms(h[:, : length - k], part.hnorm.weight, eps)], dim=-1
        )
        h = part.layer(both @ part.eh_proj.weight.T)[0]
        scored = spec.head.scale * rms(h, part.norm.weight, eps) @ matrix.T
        losses.append(
            cross_entropy(scored.flatten(0, 1), text[:, k + 1 :].flatten(), reduction="sum") / ids.numel()
        )
    main = cross_entropy(logits.flatten(0, 1), follow.flatten())
    main = main + (spec.loss.z_loss if spec.loss else 0.0) * logits.logsumexp(-1).square().mean()
    return main + spec.mtp.loss_weight * torch.stack(losses).mean()


@pytest.mark.sample(1, whole=True)
@EVERY
def test_the_loss_is_that_of_the_paper(name):
    spec = COUNTED[name]
    made, text = built(spec), tokens(2, 10)
    ids, follow = text[:, :-1], text[:, 1:]
    loss = made(ids, targets=follow)
    expected = by_the_paper(spec, made, ids, follow)
    assert_close(loss, expected, 1e-6)
    parameters = list(made.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(loss, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        assert_close(ours, theirs, 1e-5)


@pytest.mark.long
@pytest.mark.sample(1)
@EVERY
def test_every_witness_counts_the_same(name):
    assert failures(ask(COUNTED[name], 2, 10)) == []


@pytest.mark.sample(1, whole=True)
@EVERY
def test_nothing_but_training_knows_of_it(name):
    spec = COUNTED[name]
    plain = substitute(spec, {"mtp": None})
    made = built(spec)
    other = build_model(plain)
    other.load_state_dict(
        {key: value for key, value in made.state_dict().items() if not key.startswith("mtp.")}
    )
    assert torch.equal(made(tokens()), other(tokens()))
    assert forward_pass(spec, 2, 9).flops() == forward_pass(plain, 2, 9).flops()
    assert count_kv_cache(spec, 9).totals == count_kv_cache(plain, 9).totals
    ours, theirs = count_params(spec).totals, count_params(plain).totals
    assert {key: value for key, value in ours.items() if not key.startswith("mtp")} == {
        key: value for key, value in theirs.items() if not key.startswith("mtp")
    }
    assert (theirs["mtp_params"], theirs["mtp_active_params"], theirs["mtp_stored_params"]) == (0, 0, 0)


@pytest.mark.sample(1, whole=True)
@EVERY
def test_its_parameters_are_those_torch_has_beyond_the_model(name):
    spec, made = COUNTED[name], build_model(COUNTED[name], device="meta")
    own = sum(parameter.numel() for key, parameter in made.named_parameters() if key.startswith("mtp."))
    found = count_params(spec).totals
    assert (found["mtp_params"], found["params"] + found["mtp_params"]) == (
        own,
        sum(p.numel() for p in made.parameters()),
    )
    assert found["mtp_stored_params"] == own + spec.mtp.depth * 2 * V * D


def test_what_one_depth_costs_beside_its_layer():
    """Two norms, the projection, the norm and the shared head, on 9 - 1 of 9 tokens; forward."""
    spec = COUNTED["deepseek"]
    rows = {
        row.path: row
        for row in train_pass(spec, 2, 9).rows
        if row.path.startswith("mtp.") and ".layer." not in row.path
    }
    matmul = {
        path: part.flops for path, row in rows.items() for part in row.parts if part.op_class == "contraction"
    }
    assert matmul == {"mtp.0.eh_proj": 2 * (2 * 8) * (2 * D) * D, "mtp.0.logits": 2 * (2 * 8) * D * V}
    assert {path: row.unit_params for path, row in rows.items() if row.weights} == {
        "mtp.0.enorm": D,
        "mtp.0.hnorm": D,
        "mtp.0.eh_proj": 2 * D * D,
        "mtp.0.norm": D,
    }


def test_each_further_depth_has_a_token_less():
    lengths = {
        row.path.split(".")[1]: row.outputs[0][1]
        for row in train_pass(COUNTED["tied"], 1, 9).rows
        if row.path.endswith("eh_proj")
    }
    assert lengths == {"0": 8, "1": 7, "2": 6}


def test_flops_of_training_hold_it_as_a_component_of_its_own():
    spec = COUNTED["two"]
    found = count_flops(spec, Request(phase="train", seq_len=9)).totals
    plain = count_flops(substitute(spec, {"mtp": None}), Request(phase="train", seq_len=9)).totals
    own = found["by_component"].pop("mtp")
    assert found["by_component"] == plain["by_component"]
    assert found["matmul_flops"] == plain["matmul_flops"] + own


@pytest.mark.parametrize(
    "count",
    [lambda spec: train_pass(spec, 1, 3), lambda spec: build_model(spec)(tokens(1, 3), targets=tokens(1, 3))],
)
def test_too_few_tokens_are_told(count):
    with pytest.raises(ArchError, match="3 tokens are too few to predict 3 beyond the next"):
        count(COUNTED["tied"])


@pytest.mark.long
def test_it_compiles_whole():
    made, text = built(COUNTED["two"]), tokens(2, 10)
    torch.compiler.reset()
    compiled = torch.compile(made, fullgraph=True, backend="eager")
    assert_close(compiled(text[:, :-1], targets=text[:, 1:]), made(text[:, :-1], targets=text[:, 1:]), 1e-6)


def test_training_reaches_every_parameter():
    made, text = built(COUNTED["deepseek"]), tokens(4, 12)
    made(text[:, :-1], targets=text[:, 1:]).backward()
    assert [key for key, parameter in made.named_parameters() if parameter.grad is None] == []


CHECKPOINTS = json.loads((Path(__file__).parent / "checkpoints.json").read_text())


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_holds_what_is_counted(name, tmp_path):
    """What the tensors of the published files add up to, without fp8 scales and the router's correction.

    The model, and beyond it.
    """
    known, path = CHECKPOINTS[name], tmp_path / "config.json"
    path.write_text(json.dumps(known["config"]))
    found = count_params(load(str(path)).model).totals
    assert found["params"] == known["model"]
    assert found["mtp_stored_params"] == known["beyond_the_model"]


def test_the_preset_is_the_checkpoint():
    """256 experts, the shared one, the router, latent attention, two norms.

    Then the projection, three norms and the copies.
    """
    expert = 3 * 7168 * 2048
    query, keys = 7168 * 1536 + 1536 + 1536 * 128 * 192, 7168 * (512 + 64) + 512 + 512 * 128 * 256
    layer = 257 * expert + 256 * 7168 + query + keys + 128 * 128 * 7168 + 2 * 7168
    assert (
        CHECKPOINTS["deepseek-v3"]["beyond_the_model"]
        == layer + 2 * 7168 * 7168 + 3 * 7168 + 2 * 129280 * 7168
    )
    assert (
        count_params(load("deepseek-v3").model).totals["mtp_stored_params"]
        == CHECKPOINTS["deepseek-v3"]["beyond_the_model"]
    )


def test_rows_of_a_model_without_it_are_none():
    assert prediction_rows(model(DENSE)) == ()


def test_its_rows_have_paths_of_their_own():
    paths = [row.path for row in prediction_rows(COUNTED["tied"])]
    assert len(set(paths)) == len(paths)
    assert {path.split(".")[0] for path in paths} == {"mtp"}


def test_its_layer_is_its_own_or_like_the_last():
    widths = {
        name: {row.weights["weight"][0] for row in prediction_rows(spec) if row.path.endswith("up_proj")}
        for name, spec in COUNTED.items()
    }
    assert widths == {"deepseek": {10, 6}, "two": {20}, "tied": {9}}
