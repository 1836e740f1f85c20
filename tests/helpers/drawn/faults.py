"""Faults of a drawing that Chromium laid out: what overlaps, leaves its place, is pale or slanted."""

from collections import defaultdict
from itertools import pairwise

import numpy as np

from browsing import luminance
from drawn.seen import Seen, crosses, edges

LEAST_CONTRAST, LEAST_STEP = 4.5, 1.5
LEAST_SIZE, LEAST_TEXTS = 12.5, 15
MARGIN, SPACE = 4, 2
"""Pixels between a text and the edge of the view, and of its box."""
TOUCHING = 1.5
"""Bars closer than this, in units, touch; ground shows between others."""
SHOWN = 40


def faults(layout):
    """All faults of a measured drawing, {kind: [what and where]}."""
    seen = Seen(layout)
    found = defaultdict(dict)
    for check in CHECKS:
        for kind, what in check(seen):
            found[kind][what] = None
    return {kind: [*whats] for kind, whats in found.items()}


def few_texts(seen):
    """Too few texts, or what is no text, shape or style of an SVG."""
    if len(seen.contents) < LEAST_TEXTS:
        yield "few texts", str(len(seen.contents))
    if seen.foreign:
        yield "foreign elements", str(seen.foreign)


def unfilled_rectangles(seen):
    """Rectangles of no fill around a text: its ground has no colour, that of a see-through one has."""
    for mark in seen.marks:
        left, top, right, bottom = mark.bounds
        paint = mark.paint["light"]
        if mark.tag != "rect" or paint["fill"] != "none" or not paint["filled"]:
            continue
        for i, box in enumerate(seen.placed):
            if left < (box[0] + box[2]) / 2 < right and top < (box[1] + box[3]) / 2 < bottom:
                yield "fill none around a text", f"{named(seen, i)} | {mark.name} {_at(mark)}"


def overlapping_texts(seen):
    """Texts on texts, in each font and width."""
    for boxes, _ in seen.letters.values():
        left, top, right, bottom = boxes.T
        on = (left[:, None] < right) & (left < right[:, None]) & (top[:, None] < bottom)
        on &= top < bottom[:, None]
        for i, j in zip(*np.nonzero(np.triu(on, 1)), strict=True):
            yield "text on text", f"{named(seen, i)} | {named(seen, j)}"


def outside_texts(seen):
    """Texts that leave the view."""
    for boxes, (width, height) in seen.letters.values():
        left, top, right, bottom = boxes.T
        out = (left < MARGIN) | (right > width - MARGIN) | (top < 0) | (bottom > height)
        yield from (("outside the view", named(seen, i)) for i in np.flatnonzero(out))


def leaving_texts(seen):
    """Texts that leave the smallest box around their middle."""
    boxes = [mark.bounds for mark in seen.marks if mark.is_box]
    if not boxes:
        return
    boxes = np.array(boxes)
    for letters, (width, _) in seen.letters.values():
        scale = width / seen.view[2]
        holders = (boxes - np.array([*seen.view[:2]] * 2)) * scale
        sizes = (holders[:, 2] - holders[:, 0]) * (holders[:, 3] - holders[:, 1])
        for i, (left, top, right, bottom) in enumerate(letters):
            x, y = (left + right) / 2, (top + bottom) / 2
            around = (holders[:, 0] < x) & (x < holders[:, 2]) & (holders[:, 1] < y) & (y < holders[:, 3])
            if not around.any():
                continue
            box = holders[np.argmin(np.where(around, sizes, np.inf))]
            if (
                left < box[0] + SPACE
                or right > box[2] - SPACE
                or top < box[1] - SPACE
                or bottom > box[3] + SPACE
            ):
                yield "leaves its box", named(seen, i)


def pale_texts(seen):
    """Texts of too little contrast with what is under their middle and ends, or that something covers."""
    for i, (left, top, right, bottom) in enumerate(seen.placed):
        y = (top + bottom) / 2
        for x in (left + 1, (left + right) / 2, right - 1):
            ground = seen.under(i, (x, y))
            if ground is None:
                yield "nothing under a text", named(seen, i)
                continue
            for scheme, inks in seen.inks.items():
                ratio = _ratio(inks[i]["fill"], ground.paint[scheme]["fill"])
                if ratio < LEAST_CONTRAST:
                    yield "pale", f"{named(seen, i)} {scheme} {ratio:.2f}"
        if seen.over(i, ((left + right) / 2, y)):
            yield "covered", named(seen, i)


def small_texts(seen):
    """Texts in type that is too small."""
    for content, ink in zip(seen.contents, seen.inks["light"], strict=True):
        if ink["size"] < LEAST_SIZE - 0.01:
            yield "small type", f"{content[:SHOWN]} {ink['size']}"


def crossed_texts(seen):
    """Texts that a line, or the edge of a box or bar, passes through."""
    if not seen.marks:
        return
    e = seen.ends
    for i, box in enumerate(seen.placed):
        inner = box[0] + 0.5, box[1] + 0.5, box[2] - 0.5, box[3] - 0.5
        near = (e[:, 0] < inner[2]) & (inner[0] < e[:, 2]) & (e[:, 1] < inner[3]) & (inner[1] < e[:, 3])
        for mark in (seen.marks[n] for n in np.flatnonzero(near)):
            if any(crosses(ends, inner) for ends in edges(mark)):
                kind = "line through a text" if mark.is_line else "text half on a shape"
                yield kind, f"{named(seen, i)} | {mark.tag} {mark.name} {_at(mark)}"


def slanted_lines(seen):
    """Lines neither horizontal nor vertical; leaders of labels may slant, and the cross in a ring."""
    rings = [mark.bounds for mark in seen.marks if mark.tag == "circle"]
    for mark in seen.marks:
        if mark.is_line and "leader" not in mark.name and not any(_contains(r, mark.bounds) for r in rings):
            for (x1, y1), (x2, y2) in edges(mark):
                if abs(x1 - x2) > 0.05 and abs(y1 - y2) > 0.05:
                    yield "slanted line", f"{mark.name} {_at(mark)}"


def crossed_boxes(seen):
    """Lines that pass into a box from outside, and boxes that overlap in part."""
    boxes = [mark for mark in seen.marks if mark.is_box and mark.solid]
    for n, box in enumerate(boxes):
        left, top, right, bottom = box.bounds
        inner = left + 1.6, top + 1.6, right - 1.6, bottom - 1.6
        for mark in seen.marks:
            x1, y1, x2, y2 = mark.bounds
            apart = x1 >= inner[2] or x2 <= inner[0] or y1 >= inner[3] or y2 <= inner[1]
            inside = x1 >= left - 0.1 and x2 <= right + 0.1 and y1 >= top - 0.1 and y2 <= bottom + 0.1
            if apart or inside or not mark.is_line or "leader" in mark.name:
                continue
            if any(crosses(ends, inner) for ends in edges(mark)):
                yield "line through a box", f"{box.name} {_at(box)} | {mark.name} {_at(mark)}"
        for other in boxes[n + 1 :]:
            if _overlap_in_part(box.bounds, other.bounds):
                yield "box on box", f"{box.name} {_at(box)} | {other.name} {_at(other)}"


def _overlap_in_part(a, b):
    apart = a[0] >= b[2] - 0.5 or b[0] >= a[2] - 0.5 or a[1] >= b[3] - 0.5 or b[1] >= a[3] - 0.5
    return not (apart or _contains(a, b) or _contains(b, a))


def _contains(outer, inner):
    low = outer[0] <= inner[0] + 0.1 and outer[1] <= inner[1] + 0.1
    return low and outer[2] >= inner[2] - 0.1 and outer[3] >= inner[3] - 0.1


def like_neighbours(seen):
    """Neighbours in a bar that neither luminance nor texture tells apart."""
    for one, two in _neighbours(seen):
        if one.textures != two.textures:
            continue
        for scheme in seen.inks:
            ratio = _ratio(one.paint[scheme]["fill"], two.paint[scheme]["fill"])
            if ratio < LEAST_STEP:
                yield "like neighbours", f"{one.name} | {two.name} {scheme} {ratio:.2f} {_at(two)}"


def _neighbours(seen):
    """Pairs of solid rectangles side by side that draw different numbers and touch, or share a foot bar."""
    rows = defaultdict(list)
    for mark in seen.marks:
        # SVG does not render a rectangle without a width, as of 137M beside 671B by one scale
        if mark.tag == "rect" and mark.solid and mark.data and mark.bounds[2] > mark.bounds[0]:
            rows[round(mark.bounds[1], 1), round(mark.bounds[3], 1)].append(mark)
    for row in rows.values():
        for one, two in pairwise(sorted(row, key=lambda mark: mark.bounds[0])):
            gap = two.bounds[0] - one.bounds[2]
            apart = TOUCHING if "show" in {one.data.get("command"), two.data.get("command")} else 3.0
            if gap < apart and one.figure != two.figure:
                yield one, two


def named(seen, i):
    """A text and where it is, for who looks for it."""
    left, top, *_ = seen.placed[i]
    return f"{seen.contents[i][:SHOWN]!r} at {left:.0f},{top:.0f}"


def _at(mark):
    left, top, *_ = mark.bounds
    return f"at {left:.0f},{top:.0f}"


def _ratio(one, two):
    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


CHECKS = (
    few_texts,
    unfilled_rectangles,
    overlapping_texts,
    outside_texts,
    leaving_texts,
    pale_texts,
    small_texts,
    crossed_texts,
    slanted_lines,
    crossed_boxes,
    like_neighbours,
)
