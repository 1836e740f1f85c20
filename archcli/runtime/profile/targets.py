"""Targets for a run without data: random ids, of which as many lie in each cluster of an adaptive head as it states."""

from __future__ import annotations

import torch

from archcli.arith import rounded, share_of
from archcli.modules import AdaptiveHead, Model


def random_targets(spec: Model, batch_size: int, seq_len: int, generator: torch.Generator) -> torch.Tensor:
    """Ids [B, T] in random order; where a share is no whole number of tokens it is the nearest, and the last cluster has the rest."""
    head, tokens = getattr(spec, "head", None), batch_size * seq_len
    if not isinstance(head, AdaptiveHead):
        return torch.randint(spec.vocab_size, (batch_size, seq_len), generator=generator)
    bounds = (0, *head.cutoffs, spec.vocab_size)
    sizes = [rounded(share_of(tokens, share)) for share in head.cluster_shares[:-1]]
    ids = [
        torch.randint(low, high, (size,), generator=generator)
        for low, high, size in zip(bounds, bounds[1:], [*sizes, tokens - sum(sizes)], strict=False)
    ]
    return torch.cat(ids)[torch.randperm(tokens, generator=generator)].view(batch_size, seq_len)
