"""Cases and references of a mixture with experts that compute nothing."""

import torch

from archcli.ops import CombineReal, DispatchReal
from ops.case import R, ledger

# 2 sequences of 3 tokens, 4 wide, 3 experts each: of 18 choices 5/9 fall on the 5 that compute
X, CHOICES, SHARE = (2, 3, 4), (2, 3, 3), 10

CASES = {
    "dispatch-real": ledger(
        DispatchReal("y", 5, 4),
        (X, CHOICES),
        ((SHARE, 4), (SHARE,), (SHARE,)),
        [(R, 0, SHARE * 4 + 18, SHARE * 4)],
        [(R, SHARE * 4, SHARE * 4 + 18, 24)],  # a token adds up what its copies send back
    ),
    "combine-real": ledger(
        CombineReal("y", 5),
        ((SHARE, 4), X, CHOICES, CHOICES, (SHARE,)),
        X,
        # a product and a sum for each copy; a product for each token, with the sum of its idle weights
        [(R, 2 * SHARE * 4 + 24 + 18, SHARE * 4 + 24 + 2 * 18 + SHARE, 24)],
        [
            (R, SHARE * 4, 24 + 18, SHARE * 4),  # of a copy: times its weight
            (R, 24, 24 + 18, 24),  # of the tokens: times the weights of the idle
            (R, 2 * (SHARE * 4 + 24), SHARE * 4 + 2 * 24, 18),  # of the weights: products and sums
        ],
    ),
}


def tenth(shape, generator):
    """Experts of 18 choices, ten of them below 5."""
    return (torch.randperm(18, generator=generator) // 2).view(shape)


def sorted_real(shape, generator):
    """Which choices of `tenth` fall on the experts that compute, sorted by expert."""
    chosen = tenth((18,), torch.Generator().manual_seed(7))
    return chosen.sort(stable=True).indices[:SHARE]


def fixed(shape, generator):
    """The choices that `sorted_real` sorts."""
    return tenth(shape, torch.Generator().manual_seed(7))


ARGUMENTS = {("DispatchReal", 1): fixed, ("CombineReal", 3): fixed, ("CombineReal", 4): sorted_real}


def dispatch(op, weights, x, index):
    """Expert by expert, token by token, the copies of those that compute."""
    flat, choices = x.reshape(-1, x.shape[-1]), index.reshape(-1, index.shape[-1]).tolist()
    found = [
        (expert, token, place)
        for expert in range(op.n_experts)
        for token, chosen in enumerate(choices)
        for place, one in enumerate(chosen)
        if one == expert
    ]
    tokens = torch.stack([flat[token] for _, token, _ in found])
    order = torch.tensor([token * index.shape[-1] + place for _, token, place in found])
    return tokens, torch.tensor([expert for expert, _, _ in found]), order


def combine(op, weights, y, x, gates, index, order):
    """Each token's experts one by one."""
    out = torch.zeros_like(x).reshape(-1, x.shape[-1])
    flat, chosen = x.reshape(-1, x.shape[-1]), index.reshape(-1, index.shape[-1])
    of_choice = {int(choice): y[i] for i, choice in enumerate(order)}
    for token, experts in enumerate(chosen.tolist()):
        for place, expert in enumerate(experts):
            choice = token * len(experts) + place
            out[token] += gates.flatten()[choice] * (
                of_choice[choice] if expert < op.n_experts else flat[token]
            )
    return out.view(x.shape)


REFERENCES = {"DispatchReal": dispatch, "CombineReal": combine}
