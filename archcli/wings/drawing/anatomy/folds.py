"""Fold several nodes of a drawing into one, such as gate and up of a gated network."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from archcli.wings.drawing.anatomy.draft import Draft, Drafts, Tap
from archcli.wings.drawing.anatomy.titles import PHRASES
from archcli.wings.drawing.drawn import Piece

TWINS = 2
"""Products that meet in a gated network."""


def fold(drafts: Drafts) -> Drafts:
    """All folds, in the order in which they build on each other."""
    fold_routers(drafts)
    fold_scalar_gates(drafts)
    fold_twins(drafts)
    fold_halves(drafts)
    fold_chains(drafts)
    return drafts


def fold_routers(drafts: Drafts) -> None:
    """Fold the product and the scores of a router into its node."""
    for router in [draft for draft in drafts.values() if draft.role == "router"]:
        # back to the product with a score per expert: its width is the number of experts
        router.width = None
        while router.reads and (before := drafts[router.reads[0].node]).role in ("matrix", "unary"):
            if drafts.only_reader(before.id) is not router or router.width is not None:
                break
            router.rows = [*before.rows, *router.rows]
            router.reads = list(dict.fromkeys([*before.reads, *router.reads[1:]]))
            router.width = before.width if before.role == "matrix" else None
            del drafts[before.id]


def fold_scalar_gates(drafts: Drafts) -> None:
    """Fold a gate with one number per token into a caption, `gated by σ`, of the node that it gates."""
    for join in [draft for draft in drafts.values() if draft.role == "join"]:
        for port in list(join.reads):
            branch = list(_branch(drafts, drafts[port.node], join))
            width = branch[-1].width if branch and branch[-1].role == "matrix" else None
            if width is None or width.value != 1:
                continue
            join.reads.remove(port)
            labels = [draft.label for draft in branch if draft.role == "unary"]
            for draft in branch:
                join.rows += draft.rows
                del drafts[draft.id]
            gated = drafts[join.reads[0].node]
            gated.lines = (*gated.lines, f"gated by {labels[0]}" if labels else "gated")
            gated.rows += join.rows
            drafts.drop(join.id)
            break


def _branch(drafts: Drafts, draft: Draft, reader: Draft) -> Iterator[Draft]:
    """The chain of operations from a reader back to a product, each with no other reader."""
    while drafts.only_reader(draft.id) is reader and draft.role in ("unary", "matrix"):
        yield draft
        if draft.role == "matrix" or len(draft.reads) != 1:
            return
        draft, reader = drafts[draft.reads[0].node], draft


def fold_twins(drafts: Drafts) -> None:
    """Fold two equal products of one input that are joined after activations: gate and up."""
    for join in [draft for draft in drafts.values() if draft.role == "join"]:
        if len(join.reads) != TWINS or any(port.piece is not None for port in join.reads):
            continue
        branches = [list(_branch(drafts, drafts[port.node], join)) for port in join.reads]
        if all(branch and branch[-1].role == "matrix" for branch in branches):
            first, second = (branch[-1] for branch in branches)
            if _alike(first, second):
                _fold_twins(drafts, join, branches)


def _alike(first: Draft, second: Draft) -> bool:
    """Whether two products have the same input and equally wide outputs, without heads or pieces."""
    plain = all(not draft.pieces and draft.heads is None for draft in (first, second))
    equal = first.reads == second.reads and first.width is not None and second.width is not None
    return plain and equal and first.width.value == second.width.value  # type: ignore[union-attr]


def _fold_twins(drafts: Drafts, join: Draft, branches: list[list[Draft]]) -> None:
    products = [branch[-1] for branch in branches]
    product = products[0]
    product.stacked = [Piece(of.width, of.label) for of in products if of.width is not None]
    texts = [_applied(branch) for branch in branches]
    product.lines = (f" {join.label} ".join(texts),)
    product.label = ", ".join(of.label for of in products)
    product.rows = [
        row for branch in branches for draft in reversed(branch) for row in draft.rows
    ] + join.rows
    for draft in (draft for branch in branches for draft in branch if draft is not product):
        del drafts[draft.id]
    join.reads = [Tap(product.id)]
    drafts.drop(join.id)


def _applied(branch: list[Draft]) -> str:
    """The text of a product and its activations: `SiLU(gate)`."""
    *applied, product = branch
    text = product.label
    for draft in reversed(applied):
        text = f"{draft.label}({text})"
    return text


def fold_halves(drafts: Drafts) -> None:
    """Fold a product whose two equal halves are joined after activations: gate and up in one matrix."""
    for join in [draft for draft in drafts.values() if draft.role == "join"]:
        if len(join.reads) != TWINS:
            continue
        ends = [end for port in join.reads if (end := _half(drafts, port, join)) is not None]
        if len(ends) != TWINS or ends[0][0].node != ends[1][0].node:
            continue
        product = drafts[ends[0][0].node]
        equal = len({piece.width.value for piece in product.pieces}) == 1
        if len(product.pieces) != TWINS or not equal or product.heads is not None:
            continue
        inside = {join.id, *(draft.id for _, passed in ends for draft in passed)}
        if {draft.id for draft in drafts.readers(product.id)} <= inside:
            _fold_halves(drafts, join, product, ends)


def _half(drafts: Drafts, port: Tap, reader: Draft) -> tuple[Tap, list[Draft]] | None:
    """The piece of a product at the start of a chain, and the activations on it."""
    passed: list[Draft] = []
    while port.piece is None:
        draft = drafts[port.node]
        if draft.role != "unary" or len(draft.reads) != 1 or drafts.only_reader(draft.id) is not reader:
            return None
        passed.append(draft)
        port, reader = draft.reads[0], draft
    return (port, passed) if drafts[port.node].role == "matrix" else None


def _fold_halves(drafts: Drafts, join: Draft, product: Draft, ends: list[tuple[Tap, list[Draft]]]) -> None:
    texts = []
    for port, passed in ends:
        text = "gate" if passed else "up"
        for draft in reversed(passed):
            text = f"{draft.label}({text})"
            product.rows += draft.rows
            del drafts[draft.id]
        texts.append(text)
        product.pieces[port.piece or 0] = product.pieces[port.piece or 0]._replace(label=text)
    product.rows += join.rows
    product.stacked, product.pieces = list(product.pieces), []
    product.lines = (f" {join.label} ".join(texts),)
    join.reads = [Tap(product.id)]
    drafts.drop(join.id)


def fold_chains(drafts: Drafts) -> None:
    """Fold consecutive operations without a matrix into one pill: `convolution, SiLU`."""
    for draft in list(drafts.values()):
        if draft.role != "unary" or len(draft.reads) != 1 or draft.reads[0].piece is not None:
            continue
        before = drafts[draft.reads[0].node]
        if before.role == "unary" and drafts.only_reader(before.id) is draft and not before.pieces:
            draft.label = f"{before.label}, {draft.label}"
            draft.reads, draft.rows = before.reads, [*before.rows, *draft.rows]
            draft.held, draft.cached = before.held or draft.held, before.cached or draft.cached
            del drafts[before.id]


def fold_asides(drafts: Drafts) -> None:
    """Fold consecutive products and activations in the wiring of a layer into one box."""
    boxes: dict[str, list[str]] = {}
    for draft in list(drafts.values()):
        if draft.role not in ("matrix", "unary") or len(draft.reads) != 1:
            continue
        before = drafts[draft.reads[0].node]
        pair = (before.role, draft.role)
        alone = len(before.reads) == 1 and drafts.only_reader(before.id) is draft
        if not alone or "matrix" not in pair or before.role not in ("matrix", "unary"):
            continue
        names = [*boxes.pop(before.id, _product(before)), *_product(draft)]
        boxes[draft.id] = names
        draft.role, draft.label = "matrix", _joined(names)
        draft.reads, draft.rows = before.reads, [*before.rows, *draft.rows]
        draft.heads, draft.pieces = None, []
        del drafts[before.id]


def _product(draft: Draft) -> list[str]:
    """The label of a product; empty for an activation."""
    return [draft.label] if draft.role == "matrix" else []


def _joined(names: list[str]) -> str:
    """The common first words of names (`laurel`); without any the names themselves."""
    common = list(
        takewhile(lambda nth: len(set(nth)) == 1, zip(*(name.split() for name in names), strict=False))
    )
    stem = " ".join(nth[0] for nth in common)
    return PHRASES.get(stem, stem) or ", ".join(names)
