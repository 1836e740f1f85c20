"""Ranks with their shares of the weights compute the logits and gradients of the whole model."""

import pytest
import torch

from archcli.modules import (
    GLU,
    MLP,
    MLSTM,
    RGLRU,
    RWKV4,
    BlockCompressor,
    BlockIndexer,
    BlockwiseAttention,
    GatedDeltaNet,
    Group,
    KeyBlockIndexer,
    KimiDeltaAttention,
    LinearAttention,
    Mamba,
    MixtureOfExperts,
    MultiHeadLatentAttention,
    MultiQueryAttention,
    OutputGate,
    Parallel,
    ParallelMixer,
    PreNorm,
    QKNorm,
    RMSNorm,
    RWKVChannelMix,
)
from archcli.modules.tensor_parallel.shard import shard
from archcli.wings.running.runtime.model.build import build_model
from ranks import Ranks, read_own_words, share_of
from small import NORM, attention, decoder, layer

V, B, T = 50, 2, 8
ROW = ("o_proj", "out_proj", "down_proj")
"""Projections that are split by inputs: their biases are added once."""


def one(mixer=None, ffn=None, **changes):
    return decoder(Group(n_layers=2, layer=layer(mixer, ffn)), **changes)


def recurrent(mixer, ffn=None):
    return decoder(Group(n_layers=2, layer=PreNorm(mixer=mixer, ffn=ffn or GLU(d_ff=12), norm=NORM)))


def moe(**fields):
    return one(ffn=MixtureOfExperts(n_experts=4, top_k=2, expert=GLU(d_ff=12), **fields))


MLA = MultiHeadLatentAttention(
    n_heads=4,
    kv_lora_rank=6,
    qk_nope_head_dim=2,
    qk_rope_head_dim=2,
    v_head_dim=4,
    q_lora_rank=6,
    latent_norm=NORM,
)
BLOCKS = BlockwiseAttention(
    n_heads=4,
    head_dim=4,
    q_lora_rank=6,
    o_groups=4,
    o_lora_rank=3,
    window=3,
    sinks=True,
    latent_norm=NORM,
    compressor=BlockCompressor(rate=2, overlaps=True, norm=NORM),
)
MODELS = {
    "grouped queries": one(),
    "a tied table": one(tied=True),
    "one kv head": one(MultiQueryAttention(n_heads=4, head_dim=2)),
    "biases": one(attention(bias=True), MLP(d_ff=12, bias=True)),
    "a norm of all heads": one(attention(qk_norm=QKNorm(per="full", norm=NORM))),
    "a norm of each head": one(attention(qk_norm=QKNorm(per="head_distinct", norm=NORM))),
    "norms before projections": one(attention(inner_norm=NORM), GLU(d_ff=12, inner_norm=NORM)),
    "sinks and gates": one(attention(sinks=True, output_gate=OutputGate())),
    "chosen blocks": one(
        attention(index=KeyBlockIndexer(top_k=2, block=2, n_heads=2, head_dim=3, norm=NORM))
    ),
    "side by side": decoder(
        Group(n_layers=2, layer=Parallel(attention=attention(), ffn=GLU(d_ff=12), norm=NORM))
    ),
    "latents": one(MLA),
    "keys of blocks": one(BLOCKS),
    "a window before blocks": one(BLOCKS.replace(compressor=None)),
    "chosen keys of blocks": one(BLOCKS.replace(index=BlockIndexer(top_k=2, n_heads=2, head_dim=4))),
    "experts": moe(),
    "shared experts": moe(shared=GLU(d_ff=8), shared_gate=True),
    "a norm behind experts": moe(shared=GLU(d_ff=8), out_norm=NORM),
    "narrow experts": moe(latent=6),
    "linear attention": one(LinearAttention(n_heads=4, head_dim=2)),
    "delta rule": recurrent(
        GatedDeltaNet(n_key_heads=4, n_value_heads=4, key_head_dim=2, value_head_dim=4, chunk=4)
    ),
    "delta rule by channel": recurrent(KimiDeltaAttention(n_heads=4, head_dim=4, gate_rank=3, chunk=4)),
    "selective scan": recurrent(Mamba(d_inner=16, state=4, dt_rank=3, dt_norm=RMSNorm())),
    "matrix memory": recurrent(MLSTM(n_heads=4, key_head_dim=2, value_head_dim=4, chunk=4)),
    "linear recurrence": recurrent(RGLRU(width=16, n_blocks=4)),
    "time and channel mixing": recurrent(RWKV4(), RWKVChannelMix(d_ff=12)),
    "branches": one(ParallelMixer(branches=(attention(), LinearAttention(n_heads=4, head_dim=2)))),
}


def weighed(model, whole, words, tp, group, monkeypatch, *, sp):
    """(logits, gradients) of each rank."""
    shares = [build_model(shard(model, tp, sp=sp, rank=rank), attention="eager") for rank in range(tp)]
    for cls, run in group.exchanges().items():
        monkeypatch.setattr(cls, "run", run)

    def work(rank):
        built = shares[rank]
        start = rank * -(-V // tp)
        read_own_words(built.embedding.tokens, start)
        with torch.no_grad():
            for name, weight in built.named_parameters():
                share = share_of(whole[name], weight.shape, rank, tp)
                once = name.endswith("bias") and name.split(".")[-2] in ROW and rank
                weight.copy_(torch.zeros_like(share) if once else share)
        logits = built(words)
        asked = weigh(V)[start : start + logits.shape[-1]]
        (logits * asked).sum().backward()
        return logits.detach(), {name: weight.grad for name, weight in built.named_parameters()}

    return group.run(work)


def weigh(size):
    return torch.linspace(-1, 1, size).sin()


def filled(model):
    built = build_model(model, attention="eager")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in built.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3 + (weight.dim() == 1))
    return built


UNEQUAL = ("a norm of all heads", 4)


def plans():
    """Four ranks too, but where two of them would gather the same heads."""
    for name in MODELS:
        yield from ((name, tp, sp) for tp, sp in ((2, False), (2, True), (4, False)) if (name, tp) != UNEQUAL)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "tp", "sp"), tuple(plans()))
def test_ranks_compute_the_model(name, tp, sp, monkeypatch):
    model = MODELS[name]
    built, words = filled(model), torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))
    logits = built(words)
    (logits * weigh(V)).sum().backward()
    whole = dict(built.named_parameters())
    ranks = weighed(model, whole, words, tp, Ranks(tp), monkeypatch, sp=sp)
    assert torch.allclose(torch.cat([part for part, _ in ranks], -1), logits, rtol=1e-4, atol=1e-4)
    for key, weight in whole.items():
        parts = [gradients[key] for _, gradients in ranks]
        if weight.grad is None:  # of an index, through whose choice no gradient flows
            assert parts == [None] * tp, key
        else:
            assert is_shared(weight.grad, parts), key


def is_shared(whole, parts):
    """Whether parts of a gradient are those of their part of the weight, or add up to it."""
    tp = len(parts)
    each = [share_of(whole, part.shape, rank, tp) for rank, part in enumerate(parts)]
    close = [
        torch.allclose(part, share, rtol=1e-3, atol=1e-3) for part, share in zip(parts, each, strict=True)
    ]
    if all(close):
        return True
    if parts[0].shape == whole.shape:  # what every rank has, and each uses for its heads or tokens
        return torch.allclose(sum(parts), whole, rtol=1e-3, atol=1e-3)
    # heads of keys and values that several ranks have
    groups = whole.shape[0] // parts[0].shape[0]
    per = tp // groups
    summed = [sum(parts[i : i + per]) for i in range(0, tp, per)]
    return groups < tp and torch.allclose(torch.cat(summed), whole, rtol=1e-3, atol=1e-3)


OF_GROUPS = (
    "grouped queries",
    "biases",
    "norms before projections",
    "side by side",
    "latents",
    "experts",
    "shared experts",
    "a norm behind experts",
    "narrow experts",
    "delta rule",
)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", OF_GROUPS)
@pytest.mark.parametrize(("tp", "groups"), [(1, 2), (1, 4), (2, 2)])
def test_groups_compute_the_model_of_their_own_sequences(name, tp, groups, monkeypatch):
    """Four sequences, a part for each group: attention is a group's own, networks are divided among all."""
    model, number = MODELS[name], tp * groups
    words = torch.randint(V, (4, T), generator=torch.Generator().manual_seed(1))
    built, ranks = filled(model).double(), Ranks(number)
    whole, logits = dict(built.named_parameters()), built(words).detach()
    parts = [shard(model, tp, rank=i % tp, groups=groups) for i in range(number)]
    shares = [build_model(part, attention="eager").double() for part in parts]
    for cls, run in ranks.of_groups().items():
        monkeypatch.setattr(cls, "run", run)

    def work(rank):
        group, of_group = divmod(rank, tp)
        read_own_words(shares[rank].embedding.tokens, of_group * -(-V // tp))
        with torch.no_grad():
            for key, weight in shares[rank].named_parameters():
                index, among = (rank, number) if ".ffn." in key else (of_group, tp)
                share = share_of(whole[key], weight.shape, index, among)
                once = key.endswith("bias") and key.split(".")[-2] in ROW and index
                weight.copy_(torch.zeros_like(share) if once else share)
            return shares[rank](words.chunk(groups)[group])

    found = ranks.run(work)
    of_groups = [torch.cat(found[i * tp : (i + 1) * tp], -1) for i in range(groups)]
    assert torch.allclose(torch.cat(of_groups), logits, rtol=1e-4, atol=1e-4)
