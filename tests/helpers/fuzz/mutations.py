"""Damage to real files: of a JSON tree, of a text, of bytes; every choice is made by the Random given."""

import copy
import json
import re

ODD = [
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    7,
    2**31,
    2**53 + 1,
    2**63,
    10**18,
    10**30,
    0.0,
    0.5,
    -0.5,
    1.5,
    1e-320,
]
ODD += [
    1e308,
    float("inf"),
    float("nan"),
    "",
    "0",
    "8K",
    "1e999",
    "none",
    "auto",
    "mha",
    "rope",
    "llama",
    "é\u202e",
]
ODD += ["\ud800", "x" * 300, "\x1b[31m", "=1+1", "::error::", "../..", [], [[]], {}, [1, 2], [None], {"a": 1}]
ODD += [{"kind": "mla"}, {"kind": "moe", "n_experts": 4}, list(range(50)), {"": {}}]
WORDS = ["\n", "\n  ", "\t", "- ", "? ", "#", "&a ", "*a", "!t ", "---\n", "<<: ", *":{[]'\"\0%"]

SIZES = [1, 2, 3, 5, 7, 8, 12, 16, 24, 64, 100, 128, 1000, 4096, 65536, 10**6, 10**9]
"""Whole numbers that a size may be: many a damaged file is still a model."""


def odd(random):
    """A value that is seldom expected, or a size."""
    return random.choice(SIZES) if random.random() < 0.5 else copy.deepcopy(random.choice(ODD))


def nodes(tree, path=()):
    """The path of every node of a JSON tree."""
    yield path
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from nodes(value, (*path, key))


def damaged_tree(random, tree):
    """A copy of the tree with one to three nodes replaced, removed, added or moved."""
    tree = copy.deepcopy(tree)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        *path, last = random.choice([path for path in nodes(tree) if path] or [("a",)])
        parent = tree
        for step in path:
            parent = parent[step]
        how = random.randrange(5)
        if how == 0 and random.random() < 0.5:
            del parent[last]
        elif how == 1 and isinstance(parent, dict):
            parent[random.choice(["kind", "layer_types", "window", "extra", str(last) + "_"])] = odd(random)
        elif how == 2 and isinstance(parent[last], int):
            parent[last] = parent[last] * random.choice([-1, 0, 2, 1000, 10**9]) + random.choice([0, 1, -1])
        elif how == 3 and isinstance(tree, dict) and random.random() < 0.3:
            parent[last] = copy.deepcopy(tree[random.choice(list(tree))])
        elif isinstance(parent[last], bool):
            parent[last] = not parent[last]
        elif isinstance(parent[last], int):
            parent[last] = odd(random)
        else:
            parent[last] = copy.deepcopy(random.choice(ODD))
        if not isinstance(tree, dict | list) or not tree:
            break
    return tree


def damaged_text(random, text):
    """The text with lines or words removed, doubled, exchanged or replaced."""
    for _ in range(random.choice([1, 1, 2, 3])):
        pieces = re.split(r"(\n)" if random.random() < 0.4 else r"(\w+)", text)
        i, j = random.randrange(len(pieces)), random.randrange(len(pieces))
        how = random.randrange(5)
        if how == 0:
            del pieces[i : i + random.randint(1, 4)]
        elif how == 1:
            pieces.insert(j, pieces[i])
        elif how == 2:
            pieces[i], pieces[j] = pieces[j], pieces[i]
        elif how == 3:
            pieces[i] = random.choice(WORDS)
        else:
            pieces[i] = str(random.choice(ODD))
        text = "".join(pieces) or "a"
    return text


def damaged_bytes(random, data):
    """The bytes with stretches replaced, removed or inserted, or cut short."""
    data = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at, how = random.randrange(len(data) or 1), random.randrange(5)
        if how == 0:
            data[at : at + 1] = random.randbytes(1)
        elif how == 1:
            data[at : at + 8] = random.choice([0, 1, 2**16, 2**31, 2**63, 2**64 - 1]).to_bytes(8, "little")
        elif how == 2:
            del data[at : at + random.randint(1, 30)]
        elif how == 3:
            data[at:at] = random.randbytes(random.randint(1, 30))
        else:
            del data[at:]
    return bytes(data)


def dumped(random, tree):
    """JSON of a tree, now and then with a mistake of its own."""
    text = json.dumps(tree)
    return damaged_text(random, text) if random.random() < 0.1 else text
