"""Logits of a pass in steps: a prompt, then one token after the other through the cache."""

import torch


def stepwise(made, ids, prompt):
    logits, cache = made.prefill(ids[:, :prompt])
    steps = [logits]
    for i in range(prompt, ids.shape[1]):
        logits, cache = made.decode(ids[:, i : i + 1], cache)
        steps.append(logits)
    return torch.cat(steps, dim=1)
