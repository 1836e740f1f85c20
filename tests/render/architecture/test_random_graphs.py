"""Graphs that no model has are drawn too, with nothing over anything else."""

import random

import pytest

from archcli.wings.drawing.drawn import DrawnPart, ExpertChoice, Heads, HeldState
from archcli.wings.drawing.picture.architecture.panels import common_scale, panel, wiring
from drawn.overlaps import overlaps
from drawn.specimens import causal, fig, kind, node

ROLES = ["matrix"] * 6 + ["unary"] * 3 + ["join"] * 2 + ["core", "router", "experts", "part"]
LABELS = ["q", "gate", "RMSNorm", "convolution, SiLU, L2 norm", "a rather long label", "×", "+", ""]
FACTS = [(), ("a fact",), ("a fact", "one more fact")]


def details(role, chance):
    """What else a node of a role may say."""
    if role == "experts":
        choice = ExpertChoice(fig(chance.choice((4, 16, 60, 512))), fig(chance.choice((1, 2, 4))), None, None)
        return {"choice": chance.choice((None, choice))}
    if role == "core":
        held = HeldState(fig(chance.choice((1, 8, 64, 200))), fig(64), fig(64), None)
        return {"mask": chance.choice((None, causal())), "held": chance.choice(((), (held,)))}
    if role == "matrix":
        heads = Heads(fig(chance.choice((4, 32, 128))), fig(64))
        return {"heads": chance.choice((None, None, heads)), "cached": chance.choice((None, None, fig(2048)))}
    return {"letter": "A"} if role == "part" else {}


def forged(seed):
    """Up to 24 nodes of any role between an input and an output."""
    chance = random.Random(seed)  # noqa: S311 no secret hangs on it
    nodes = [node("x", "input", "", width=chance.choice((64, 768, 4096)))]
    nodes += [node("m", "input", "memory", width=512)] * chance.choice((0, 0, 0, 1))
    for i in range(chance.randint(1, 24)):
        role = chance.choice(ROLES)
        near = [before.id for before in nodes[-6:]]
        many = {"join": 2, "core": chance.randint(1, 5), "experts": 2}.get(role, 1)
        reads = " ".join(chance.sample(near, min(many, len(near))))
        width = chance.choice((1, 32, 576, 4096, 20000)) if role in {"matrix", "router"} else 4096
        more = {"lines": chance.choice(FACTS), **details(role, chance)}
        nodes.append(node(f"n{i}", role, chance.choice(LABELS), reads, width, hue="dense", **more))
    return (*nodes, node("y", "output", "", nodes[-1].id, 4096))


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(400))
def test_nothing_overlaps_in_a_random_graph(seed):
    nodes, chance = forged(seed), random.Random(seed)  # noqa: S311 no secret hangs on it
    title = chance.choice(("Title", "A title that is rather long for a panel"))
    drawn = panel(DrawnPart("A", "attention", title, fig(10), nodes, chance.choice(FACTS)))
    for scale in (common_scale([(drawn, 952.0)]), chance.uniform(0.0005, 0.05)):
        width = drawn.natural(scale)[0] + chance.choice((0, 30, 300))
        assert list(overlaps(drawn.shapes(0, 0, width, scale), width, drawn.height(width))) == []
    wired = wiring(kind("Layers", nodes, "x y"))
    width = wired.natural(0.0)[0]
    assert list(overlaps(wired.shapes(0, 0, width, 0.01), width, wired.height(width))) == []
