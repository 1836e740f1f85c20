"""How many experts get tokens, and how many rows, under the routings of the tables."""

from functools import cache

import numpy as np

DRAWS, SEED, POWER = 12, 7, 1.2
FEW = (0.01, 2.0)
"""The range of loads that are drawn where there are fewer choices than experts."""


def experts_and_rows(rows):
    """Touched experts and rows of the measured rank, of each row of a table."""
    pairs = [
        _balanced(*sizes) if routing == "balanced" else _skewed(*sizes)
        for *sizes, routing in zip(
            *(rows[name].astype(int).tolist() for name in ("tokens", "experts", "topk", "ep")),
            rows["routing"].tolist(),
            strict=True,
        )
    ]
    return np.array(pairs).T


def _balanced(tokens, experts, topk, ep):
    """In turn: min(experts, choices) are touched, spread over the ranks."""
    choices = tokens * topk
    touched = min(experts // ep, -(-min(experts, choices) // ep))
    return max(touched, 1), max(choices / ep, 1)


@cache
def _skewed(tokens, experts, topk, ep):
    """Loads drawn from a power law; of several ranks the one that gets most, averaged over draws."""
    random = np.random.default_rng(SEED)
    found = [_drawn(random, tokens, experts, topk, ep) for _ in range(DRAWS)]
    return tuple(np.mean(found, axis=0))


def _drawn(random, tokens, experts, topk, ep):
    choices = tokens * topk
    low, high = (1, 0.8 * tokens) if choices > experts else FEW
    ends = low ** (1 - POWER), high ** (1 - POWER)
    drawn = ((ends[1] - ends[0]) * random.random(experts) + ends[0]) ** (1 / (1 - POWER))
    loads = np.round(drawn / drawn.sum() * choices)
    order = np.argsort(-loads)
    missing = int(choices - loads.sum())
    if missing > 0:
        loads[order[: min(missing, experts)]] += 1
    elif missing < 0:
        loads[[expert for expert in order[::-1] if loads[expert] > 0][:-missing]] -= 1
    ranks = loads.reshape(ep, -1)
    busiest = ranks[ranks.sum(1).argmax()].copy()
    # a token chooses an expert once: what is above goes to others, alike on all ranks
    above = np.maximum(loads - tokens, 0).sum() // ep
    busiest = np.minimum(busiest, tokens)
    room = tokens - busiest
    busiest += np.clip(above - (np.cumsum(room) - room), 0, room)
    return max((busiest > 0).sum(), 1), max(busiest.sum(), 1)
