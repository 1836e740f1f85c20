"""Cases and references of the ops that output heads and losses bring.

In the manner of cases.py and references.py.
"""

import math

import torch

from archcli.ops import (
    Candidates,
    ClassLinear,
    ClassLogProbs,
    ClassOf,
    ClusterIndex,
    GatherLast,
    LogSoftmax,
    LogSumExp,
    Mean,
    Sample,
    ScatterAdd,
    Select,
    Subtract,
)
from ops.case import C, Case, E, M, N, X, n

IDS = (2, 3)  # 6 tokens
CASES = {
    # per element: subtract the maximum, exp, add; per token: log, add the maximum. Back: subtract, exp, times
    # the gradient
    "log-sum-exp": Case(LogSumExp("y"), (X,), IDS, {N: 3 * n + 2 * 6}, {N: 3 * n}, (n, 6), (n + 6 + 6) + n),
    # per element: subtract, exp, add, subtract; per token: log. Back: exp, add, times, subtract
    "log-softmax": Case(LogSoftmax("y"), (X,), X, {N: 4 * n + 6}, {N: 4 * n}, (n, n), 2 * n + n),
    "pick": Case(GatherLast("y"), (X, IDS), IDS, {M: 0}, {M: 0}, (6 + 6, 6), 6 + 6 + 6),
    "subtract": Case(Subtract("y"), (X, X), X, {E: n}, {E: n}, (2 * n, n), 2 * n),
    # 23 additions and a division; back a division, spread
    "mean": Case(Mean("y"), (X,), (), {N: 23 + 1}, {N: 1}, (n, 1), 1 + n),
    "mean-of-more": Case(Mean("y", 30), (X,), (), {N: 23 + 1}, {N: 1}, (n, 1), 1 + n),
    "cluster-index": Case(ClusterIndex("y", (2, 4)), (IDS,), IDS),
    # half of 6 tokens
    "select": Case(
        Select("y", 2, 5, 0.5),
        (X, IDS),
        ((3, 4), (3,), (3,)),
        {M: 0},
        {M: 0},
        (6 + 12, 12 + 3 + 3),
        (12 + 3) + 12,
    ),
    "add-at": Case(ScatterAdd("y"), (IDS, (2,), (2,)), IDS, {E: 2}, {M: 0}, (2 + 2 + 2, 2), 2 + 2 + 2),
    "sample": Case(Sample("y", 3, 7), (X,), (3,)),
    "candidates": Case(
        Candidates("y"),
        (IDS, X, (4,), IDS),
        (2, 3, 5),
        {M: 0},
        {M: 0},
        (6 + n + 4 + 6, 6 + n),
        (6 + 6) + (n + n),
    ),
    "class-of": Case(ClassOf("y", 2), (IDS,), (IDS, IDS)),
    # 5 words in 3 classes: 2 to a class, the last computed as wide
    "class-linear": Case(
        ClassLinear("y", 3),
        (X, IDS, (5, 4)),
        (2, 3, 2),
        {C: 2 * n * 2},
        {C: 2 * 2 * n * 2},
        (n + 20, 12),
        2 * (n + 20 + 12),
    ),
    "class-linear-even": Case(
        ClassLinear("y", 3),
        (X, IDS, (6, 4)),
        (2, 3, 2),
        {C: 2 * n * 2},
        {C: 2 * 2 * n * 2},
        (n + 24, 12),
        2 * (n + 24 + 12),
    ),
    # a log-softmax of 30 words in 18 classes, then a sum for each word
    "class-log-probs": Case(
        ClassLogProbs("y"),
        ((2, 3, 3), (2, 3, 5)),
        (2, 3, 5),
        {N: 4 * 30 + 18, E: 30},
        {N: 4 * 30 + 30},
        (30 + (30 + 18), 30 + 30),
        (2 * 30 + 30) + (30 + 18),
    ),
}


def seeded(shape, generator):
    """An anchor; and from here on torch draws the same numbers."""
    torch.manual_seed(7)
    return torch.zeros(shape)


def below(bound):
    return lambda shape, generator: torch.randint(bound, shape, generator=generator)


ARGUMENTS = {
    ("GatherLast", 1): below(4),
    ("ClusterIndex", 0): lambda shape, generator: torch.tensor([[0, 1, 2], [3, 4, 9]]),
    ("Select", 1): lambda shape, generator: torch.tensor([[0, 4, 2], [5, 1, 3]]),
    ("ScatterAdd", 2): lambda shape, generator: torch.tensor([1, 4]),
    ("Sample", 0): seeded,
    ("Candidates", 2): lambda shape, generator: torch.tensor([0, 2, 8, 9]),
    ("Candidates", 3): below(4),
    ("ClassOf", 0): below(7),
    ("ClassLinear", 1): lambda shape, generator: torch.tensor([[0, 1, 2], [2, 0, 0]]),
}


def log_sum_exp(row):
    top = max(row)
    return top + math.log(sum(math.exp(x - top) for x in row))


def rows(function):
    """Of each row of the last axis, a number or a row."""
    return lambda op, weights, x: torch.tensor([[function(row) for row in block] for block in x.tolist()])


def pick(op, weights, x, index):
    return torch.stack([torch.stack([x[b, t, index[b, t]] for t in range(3)]) for b in range(2)])


def select(op, weights, x, targets):
    found = [(b, t) for b in range(2) for t in range(3) if op.low <= targets[b, t] < op.high]
    local = [int(targets[b, t]) - op.low for b, t in found]
    return (
        torch.stack([x[b, t] for b, t in found]),
        torch.tensor(local),
        torch.tensor([3 * b + t for b, t in found]),
    )


def add_at(op, weights, x, values, place):
    out = x.clone()
    for value, where in zip(values, place.tolist(), strict=True):
        out[where // 3, where % 3] += value
    return out


def candidates(op, weights, own, logits, samples, targets):
    out = torch.full((2, 3, 5), float("-inf"))
    for b in range(2):
        for t in range(3):
            out[b, t, 0] = own[b, t]
            for i, sample in enumerate(samples.tolist()):
                if sample != targets[b, t]:
                    out[b, t, i + 1] = logits[b, t, i]
    return out


def class_linear(op, weights, x, class_of, table):
    out = torch.full((2, 3, 2), float("-inf"))
    for b in range(2):
        for t in range(3):
            for i in range(2):
                word = 2 * int(class_of[b, t]) + i
                if word < len(table):
                    out[b, t, i] = x[b, t] @ table[word]
    return out


def class_log_probs(op, weights, classes, logits):
    out = torch.zeros(2, 3, 5)
    for b in range(2):
        for t in range(3):
            for c in range(3):
                own = logits[b, t, 2 * c : 2 * c + 2].tolist()
                for i, logit in enumerate(own):
                    out[b, t, 2 * c + i] = classes[b, t, c] + logit - log_sum_exp(own)
    return out


REFERENCES = {
    "LogSumExp": rows(log_sum_exp),
    "LogSoftmax": rows(lambda row: [x - log_sum_exp(row) for x in row]),
    "GatherLast": pick,
    "Subtract": lambda op, weights, a, b: -(b - a),
    "Mean": lambda op, weights, x: torch.tensor(math.fsum(x.flatten().tolist()) / (op.count or 24)),
    "ClusterIndex": lambda op, weights, targets: torch.tensor(
        [[0, 1, 2], [2, 3, 3]]
    ),  # below 2 as it is; [2, 4) is 2, from 4 on 3
    "Select": select,
    "ScatterAdd": add_at,
    "Sample": lambda op, weights, anchor: torch.randperm(op.entries)[: op.size],
    "Candidates": candidates,
    "ClassOf": lambda op, weights, targets: tuple(
        targets.clone().apply_(lambda w, i=i: divmod(w, op.size)[i]) for i in range(2)
    ),
    "ClassLinear": class_linear,
    "ClassLogProbs": class_log_probs,
}
