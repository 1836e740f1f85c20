"""What each op computes, written out element by element from its paper, sharing no code with archcli."""

import math
from dataclasses import replace

import torch

from ops import head_cases, late_cases, more_cases, scan_cases, training_cases


def each(function):
    return lambda op, weights, x: x.clone().apply_(function)


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


ACTIVATIONS = {
    "relu": lambda z: max(z, 0.0),
    "relu2": lambda z: max(z, 0.0) ** 2,
    "relu6": lambda z: min(max(z, 0.0), 6.0),
    "hard_swish": lambda z: z * min(max(z + 3, 0.0), 6.0) / 6,
    "gelu": lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2,
    "gelu_tanh": lambda z: z / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
    "silu": lambda z: z * sigmoid(z),
    "sigmoid": sigmoid,
    "exp": math.exp,
    "softplus": lambda z: math.log(1 + math.exp(z)),
    "log_sigmoid": lambda z: math.log(1 / (1 + math.exp(-z))),
    "tanh": lambda z: 1 - 2 / (math.exp(2 * z) + 1),
}


def linear(op, weights, x, weight=None):
    weight = weights.get("weight", weight)
    out = torch.einsum("bti,oi->bto", x, weight)
    return out + weights["bias"] if op.bias or op.stored_bias else out


def contract(op, weights, a, b):
    out = torch.zeros(2, 3, 4, 6)
    for h in range(4):
        for c in range(6):
            out[..., h, c] = sum(a[..., h, i] * b[h, i, c] for i in range(5))
    return out


def ahead(t, spans):
    """Later tokens of the span of token t."""
    if spans is None or spans[t] < 0:
        return []
    return [s for s in range(t + 1, len(spans)) if spans[s] == spans[t]]


def attend(op, weights, q, k, v, positions, *extras):
    """Token by token and head by head."""
    given = dict(zip(op.extras, extras, strict=True))
    sinks, own, shared_bias = (given.get(name) for name in ("sinks", "bias", "shared_bias"))
    batch, new, heads, _ = q.shape
    visible, shared = k.shape[1], heads // k.shape[2]
    out, first = torch.zeros(batch, new, heads, v.shape[3]), int(positions[-1]) + 1 - visible
    for b in range(batch):
        for t in range(new):
            query = int(positions[t])
            for h in range(heads):
                chosen = given_keys(op, given["selected"][b, t], h) if "selected" in given else range(visible)
                keys = [s for s in range(visible) if op.mask.allows(query, first + s) and s in chosen]
                keys += ahead(t, given.get("spans"))
                scores = [op.scale * float(q[b, t, h] @ k[b, s, h // shared]) for s in keys]
                if op.softcap:
                    scores = [op.softcap * math.tanh(score / op.softcap) for score in scores]
                if op.alibi:
                    scores = [
                        score - slope(h, heads, op.alibi) * op.alibi_factor * abs(first + s - query)
                        for score, s in zip(scores, keys, strict=True)
                    ]
                for bias in (
                    None if own is None else own[b],
                    None if shared_bias is None else shared_bias[0],
                ):
                    if bias is not None:
                        scores = [score + float(bias[h, t, s]) for score, s in zip(scores, keys, strict=True)]
                if op.relu:
                    weights = [max(score, 0.0) / len(keys) for score in scores]
                    out[b, t, h] = sum(
                        weight * v[b, s, h // shared] for weight, s in zip(weights, keys, strict=True)
                    )
                    continue
                extra = [] if sinks is None else [float(sinks[h])]
                total = sum(math.exp(score) for score in [*scores, *extra])
                out[b, t, h] = sum(
                    math.exp(score) / total * v[b, s, h // shared]
                    for score, s in zip(scores, keys, strict=True)
                )
    return out


def given_keys(op, selected, head):
    """The keys that a query is given: those of all heads, or of blocks for each head of an index."""
    if selected.dim() == 1:
        return selected.tolist()
    starts = (op.mask.block * block for block in selected[head // op.mask.sharing].tolist())
    return [key for start in starts for key in range(start, start + op.mask.block)]


def slope(head, heads, exponent):
    """ALiBi's slopes of the largest power of two of heads are 2^(-e/p), 2^(-2e/p), ….

    The heads left over lie between them.

    Press et al. 2021, the note on 12 heads: every other one of the slopes of 2 p heads, from the first on.
    """
    power = max(p for p in (1, 2, 4, 8, 16, 32) if p <= heads)
    return (
        2 ** (-exponent * (head + 1) / power)
        if head < power
        else 2 ** (-exponent * (2 * (head - power) + 1) / (2 * power))
    )


def normalize(op, weights, x):
    if op.groups > 1:
        ones = {"weight": torch.ones(x.shape[-1] // op.groups)}
        pieces = x.chunk(op.groups, dim=-1)
        plain = replace(op, groups=1)
        return torch.cat([normalize(plain, ones, piece) for piece in pieces], dim=-1) * weights["weight"]
    out = torch.zeros_like(x)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            row = x[b, t].tolist()
            mean = sum(row) / len(row) if op.centred else 0.0
            spread = math.sqrt(sum((z - mean) ** 2 for z in row) / len(row) + op.eps)
            gain = (op.offset + weights["weight"]) if op.weight else torch.ones(x.shape[-1])
            shift = weights["bias"] if op.bias else torch.zeros(x.shape[-1])
            gain = gain[t] if op.axes > 1 else gain
            out[b, t] = (x[b, t] - mean) / spread * gain + shift
    return out


def rotary_table(op, weights, positions, *like):
    pairs = op.rotary_dim // 2
    angles = [[float(p) * op.source.theta ** (-i / pairs) for i in range(pairs)] for p in positions]
    return tuple(
        torch.tensor([[op.factor * f(angle) for angle in row] for row in angles])
        for f in (math.cos, math.sin)
    )


def rotate(op, weights, x, cos, sin):
    """As multiplication of complex numbers."""
    pairs, out = cos.shape[-1], x.clone()
    sin = -sin if op.back else sin
    first = x.shape[-1] - 2 * pairs if op.last else 0
    for i in range(pairs):
        a, b = (2 * i, 2 * i + 1) if op.pairing == "interleaved" else (i, i + pairs)
        a, b = first + a, first + b
        turned = torch.complex(x[..., a], x[..., b]) * torch.complex(cos[:, i], sin[:, i])[None, :, None]
        out[..., a], out[..., b] = turned.real, turned.imag
    return out


def sinusoid(op, weights, positions):
    rows = [[float(p) / op.base ** (2 * (i // 2) / op.width) for i in range(op.width)] for p in positions]
    turned = (math.sin, math.cos) if op.first == "sine" else (math.cos, math.sin)
    return torch.tensor([[turned[i % 2](z) for i, z in enumerate(row)] for row in rows])


def route(op, weights, logits, correction=None):
    """Token by token: rank, choose, weigh."""
    bias = weights["correction_bias"] if op.correction else correction
    chosen, index = torch.zeros(2, 3, op.top_k), torch.zeros(2, 3, op.top_k, dtype=torch.int64)
    for b in range(2):
        for t in range(3):
            row = logits[b, t].tolist()
            if op.scores == "sparsemixer":
                weigh, best = _one_by_one(op, row)
                chosen[b, t], index[b, t] = torch.tensor(weigh) * op.scale, torch.tensor(best)
                continue
            total = sum(math.exp(z) for z in row)
            scores = {
                "softmax": [math.exp(z) / total for z in row],
                "sigmoid": [sigmoid(z) for z in row],
                "softmax_after": row,
            }[op.scores]
            by = row if op.ranked_by == "logits" else scores
            ranked = [s + float(bias[e]) for e, s in enumerate(by)] if bias is not None else list(by)
            best = sorted(_eligible(op, ranked), key=lambda e: -ranked[e])[: op.top_k]
            weigh = [scores[e] for e in best]
            if op.scores == "softmax_after":
                weigh = [math.exp(z) / sum(math.exp(other) for other in weigh) for z in weigh]
            elif op.normalized:
                weigh = [w / sum(weigh) for w in weigh]
            chosen[b, t], index[b, t] = torch.tensor(weigh) * op.scale, torch.tensor(best)
    return chosen, index


def _one_by_one(op, row):
    """The largest, then the largest of the rest; each weighed among those of the rest about as good."""
    rest, weigh, best = list(range(len(row))), [], []
    for _ in range(op.top_k):
        first = max(rest, key=lambda e: row[e])
        near = [e for e in rest if (row[first] - row[e]) / max(abs(row[e]), row[first]) <= 2 * op.jitter]
        weigh.append(math.exp(row[first]) / sum(math.exp(row[e]) for e in near))
        best.append(first)
        rest.remove(first)
    return weigh, best


def _eligible(op, ranked):
    size = len(ranked) // op.groups
    groups = [range(g * size, (g + 1) * size) for g in range(op.groups)]
    best = {"max": 1, "top2": 2}[op.group_score]
    worth = [sum(sorted((ranked[e] for e in group), reverse=True)[:best]) for group in groups]
    kept = sorted(range(op.groups), key=lambda g: -worth[g])[: op.kept_groups]
    return [e for g in kept for e in groups[g]]


def dispatch(op, weights, x, index):
    """(expert, token, place) of every copy, by expert; copies of one expert stay in order."""
    copies = [(int(e), i) for i, e in enumerate(index.flatten())]
    ordered = sorted(copies)
    order = torch.tensor([i for _, i in ordered])
    return x.flatten(0, 1)[order // index.shape[-1]], torch.tensor([e for e, _ in ordered]), order


def combine(op, weights, y, gates, order):
    out = torch.zeros(2, 3, 4)
    for place, copy in enumerate(order.tolist()):
        token, which = divmod(copy, 2)
        out[token // 3, token % 3] += (gates[token // 3, token % 3, which] if op.weighted else 1) * y[place]
    return out


def collect_heads(op, weights, q, index, order):
    """Head h of the token's j-th expert becomes head 2 h + j."""
    out = torch.zeros(2, 3, 2 * op.heads, q.shape[-1] // op.heads)
    for place, copy in enumerate(order.tolist()):
        token, which = divmod(copy, 2)
        out[token // 3, token % 3, which::2] = q[place].view(op.heads, -1)
    return out


def spread_heads(op, weights, x, index, order):
    copies = [divmod(copy, 2) for copy in order.tolist()]
    return torch.stack([x[token // 3, token % 3, which::2].flatten() for token, which in copies])


def cache(op, weights, new, past=None):
    every = torch.cat([new[:, :0] if past is None else past, new], dim=1)
    before = every.shape[1] - new.shape[1]
    room = getattr(op.mask, "window", None) or getattr(op.mask, "chunk", None) or every.shape[1] + 1
    return every[:, before - min(before, room - 1) :], every[:, max(every.shape[1] - room, 0) :]


def share(weights, which):
    pairs = zip(weights[f"lambda_q{which}"], weights[f"lambda_k{which}"], strict=True)
    return math.exp(sum(float(q) * float(k) for q, k in pairs))


def xielu(z, beta, eps, alpha_p, alpha_n):
    if z > 0:
        return math.log(1 + math.exp(alpha_p)) * z**2 + beta * z
    steepness = beta + math.log(1 + math.exp(alpha_n))
    return steepness * (math.exp(min(z, -eps)) - 1 - z) + beta * z


REFERENCES = {
    "Linear": linear,
    "Lookup": lambda op, weights, i: torch.stack(
        [torch.stack([weights["weight"][int(e)] for e in row]) for row in i]
    ),
    "Parameter": lambda op, weights, x: weights["weight"],
    "Einsum": contract,
    "Attend": attend,
    "Normalize": normalize,
    "Activate": lambda op, weights, x: each(ACTIVATIONS[op.function])(op, weights, x),
    "ActivateSwish": lambda op, weights, x: each(
        lambda z: z * sigmoid(float(weights.get("beta", op.beta)) * z)
    )(op, weights, x),
    "ActivateXIELU": lambda op, weights, x: each(
        lambda z: xielu(z, op.beta, op.eps, float(weights["alpha_p"]), float(weights["alpha_n"]))
    )(op, weights, x),
    "WeightedDifference": lambda op, weights, a, b: (
        a - (share(weights, "1") - share(weights, "2") + op.start) * b
    ),
    "Add": lambda op, weights, a, b: b + a,
    "Multiply": lambda op, weights, a, b: torch.einsum("btd,btd->btd", a, b.expand_as(a)),
    "Scale": lambda op, weights, x: each(lambda z: op.factor * z)(op, weights, x),
    "Softcap": lambda op, weights, x: each(lambda z: op.cap * math.tanh(z / op.cap))(op, weights, x),
    "Clip": lambda op, weights, x: each(lambda z: min(max(z, -op.bound if op.from_below else z), op.bound))(
        op, weights, x
    ),
    "Positions": lambda op, weights, x: torch.tensor([0, 1, 2]),
    "AddConstant": lambda op, weights, x: torch.tensor([op.by, op.by + 1, op.by + 2]),
    "RotaryTable": rotary_table,
    "Rotate": rotate,
    "Sinusoid": sinusoid,
    "Route": route,
    "Dispatch": dispatch,
    "CollectHeads": collect_heads,
    "SpreadHeads": spread_heads,
    "Combine": combine,
    "SplitHeads": lambda op, weights, x: x.reshape(op.shape(tuple(x.shape))),
    "MergeHeads": lambda op, weights, x: torch.cat(list(x.unbind(-2)), dim=-1),
    "Split": lambda op, weights, x: (x[..., :1], x[..., 1:]),
    "Concat": lambda op, weights, a, b: torch.stack(
        [torch.cat([a[..., h, :], b[..., min(h, b.shape[-2] - 1), :]], dim=-1) for h in range(a.shape[-2])],
        dim=-2,
    ),
    "Unsqueeze": lambda op, weights, x: x[..., None, :],
    "KeepLast": lambda op, weights, x: x[:, 2:3],
    "ExtendCache": cache,
    **scan_cases.REFERENCES,
    **late_cases.REFERENCES,
    **more_cases.REFERENCES,
    **training_cases.REFERENCES,
    **head_cases.REFERENCES,
}
