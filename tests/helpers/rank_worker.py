"""One rank of several, started by a launcher: saves what it computes of every case.

Arguments: a folder, --tp's number, --dp's number.
"""

import sys
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor

from archcli.modules import (
    GLU,
    ALiBi,
    Group,
    LightningAttention,
    Mamba2,
    MixtureOfExperts,
    MultiQueryAttention,
    PreNorm,
)
from archcli.modules.recurrent.gated_norm import GatedRMSNorm
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.profile.work import BuildSettings
from archcli.wings.running.runtime.ranks.group import joined
from archcli.wings.running.runtime.ranks.record import record_rank
from archcli.wings.running.runtime.ranks.work import prepare_rank
from small import NORM, attention, decoder, layer


def recurrent(mixer):
    return decoder(Group(n_layers=2, layer=PreNorm(mixer=mixer, ffn=GLU(d_ff=12), norm=NORM)))


EXPERTS = MixtureOfExperts(n_experts=4, top_k=2, expert=GLU(d_ff=12))
MODELS = {
    "uneven words": decoder(vocab_size=51),
    "a tied table": decoder(tied=True),
    "experts and one kv head": decoder(
        Group(n_layers=2, layer=layer(MultiQueryAttention(n_heads=4, head_dim=2), EXPERTS))
    ),
    "slopes by head": decoder(Group(n_layers=2, layer=layer(attention(position=ALiBi())))),
    "decays by head": recurrent(
        LightningAttention(n_heads=4, head_dim=2, chunk=4, norm=GatedRMSNorm(gate="after", groups=4))
    ),
}
JOINED = {
    "joined projections": recurrent(
        Mamba2(n_heads=4, head_dim=4, state=4, n_groups=2, chunk=4, norm=GatedRMSNorm(groups=4))
    ),
}
"""Of these a cache of random entries is no slice of the whole one; what ranks put there themselves is."""
REQUESTS = (Request("forward", 4, 8), Request("prefill", 4, 8), Request("decode", 4, 1, 5))
CASES = [
    *((name, spec, request) for name, spec in MODELS.items() for request in REQUESTS),
    *((name, spec, request) for name, spec in JOINED.items() for request in REQUESTS[:2]),
]
TRAIN = Request("train", 4, 8)


def key(name, request):
    return f"{name}, {request.phase}"


def logits_of(answer):
    return answer[0] if isinstance(answer, tuple) else answer


def gradients_of(model):
    weights = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    return {name: grad.full_tensor() if isinstance(grad, DTensor) else grad for name, grad in weights.items()}


def main(folder, tp, dp):
    found = {}
    with joined(tp, dp, "cpu") as group:
        for name, spec, request in CASES:
            work = prepare_rank(spec, request, BuildSettings(), group)
            found[key(name, request)] = logits_of(work.step())
        for name, spec in (MODELS | JOINED).items():
            work = prepare_rank(spec, TRAIN, BuildSettings(), group)
            work.step()
            found[key(name, TRAIN)] = gradients_of(work.model)
            recording = record_rank(work, group, 1, lambda *_: None)
            found[f"{name}, recorded"] = recording.differing, [tuple(one) for one in recording.collectives]
        torch.save(found, Path(folder) / f"{group.rank}.pt")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
