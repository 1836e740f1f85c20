"""The checker of drawings finds each fault that is put into a drawing without any, and no other."""

import pytest

from drawn import counted
from drawn.faults import faults
from drawn.measuring import measured
from table import every_row

LABELS = "".join(
    f'<text x="40" y="{130 + 20 * i}" class="ink">label of a bar, {name}</text>'
    for i, name in enumerate("abcdefghij")
)
ROWS = "".join(
    f'<rect x="260" y="{120 + 20 * i}" width="{40 * i}" height="8" class="solid" data-command="show"'
    f' data-path="layers.0.mixer.q_proj" data-key="outputs.0.{i}" data-value="{1000 * i}"/>'
    for i in range(1, 10)
)
SOUND = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 500"><style>
text{{font-family:Inter,"DejaVu Sans",sans-serif;font-size:13px}} .small{{font-size:12.5px}}
.paper{{fill:#fff}} .ink{{fill:#1f2328}} .on{{fill:#fff}} .solid{{fill:#0072b2}} .second{{fill:#9c3f78}}
.tint{{fill:#d3e7f4}} .s-box{{stroke:#0072b2}} .edge{{fill:none;stroke:#57606a;stroke-width:1.5}}
@media (prefers-color-scheme: dark){{.paper{{fill:#0d1117}} .ink{{fill:#e6edf3}} .on{{fill:#000}}
.solid{{fill:#58b4ec}} .second{{fill:#de93c0}} .tint{{fill:#0f3552}}
.s-box{{stroke:#58b4ec}} .edge{{stroke:#a3adb8}}}}
</style><defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse">
<rect width="2" height="5"/>
</pattern></defs><rect width="1000" height="500" class="paper"/>
<text x="40" y="40" class="ink">A model</text>
<text x="960" y="40" class="ink" text-anchor="end">its key</text>
<rect x="700" y="100" width="200" height="40" class="tint s-box"/>
<text x="716" y="125" class="ink">within a box</text>
<rect x="700" y="200" width="200" height="40" class="tint s-box"/>
<text x="716" y="225" class="ink">and one more</text>
<path d="M800 200V141" class="edge"/>{LABELS}{ROWS}
<rect x="40" y="400" width="400" height="24" class="solid" data-command="params" data-path=""
 data-key="by_group.attention" data-value="4000"/><text x="60" y="416" class="on">first</text>
<rect x="440" y="400" width="200" height="24" class="second" data-command="params" data-path=""
 data-key="by_group.ffn" data-value="2000"/><rect x="440" y="418" width="200" height="6" fill="url(#hatch)"/>
<text x="460" y="415" class="on small">second</text></svg>"""

MUTANTS = {
    "a text moved onto another": ('y="150" class="ink">label', 'y="134" class="ink">label', "text on text"),
    "a text moved out of the view": ('x="960" y="40"', 'x="1004" y="40"', "outside the view"),
    "a text moved half out of its box": ('x="716" y="125"', 'x="850" y="125"', "leaves its box"),
    "a text moved up onto the edge of its box": (
        'x="716" y="225"',
        'x="716" y="204"',
        "text half on a shape",
    ),
    "a pale text": ('class="ink">A model', 'fill="#999">A model', "pale"),
    "a text pale in the dark": ('class="ink">A model', 'fill="#1f2328">A model', "pale"),
    "a text pale on its bar": ('class="on">first', 'fill="#e0b0b0">first', "pale"),
    "a smaller type": (
        'class="ink" text-anchor',
        'class="ink" style="font-size:12px" text-anchor',
        "small type",
    ),
    "a line through a text": ("M800 200V141", "M800 200V170H100V300V170H800V141", "line through a text"),
    "an edge of a bar through a text": (
        '<rect x="260" y="140"',
        '<rect x="100" y="140"',
        "text half on a shape",
    ),
    "a slanted line": ("M800 200V141", "M800 200L790 141", "slanted line"),
    "a line into a box": ("M800 200V141", "M910 220V170H860V110H910", "line through a box"),
    "a box on a box": ('<rect x="700" y="200"', '<rect x="690" y="130"', "box on box"),
    "neighbours alike": ('height="6" fill="url(#hatch)"', 'height="6" fill="none"', "like neighbours"),
    "a text under a bar": (
        '<rect x="440" y="418"',
        '<rect x="50" y="402" width="300" height="20" class="second"/><rect x="440" y="418"',
        "covered",
    ),
    "a transparent picture": ('<rect width="1000" height="500" class="paper"/>', "", "nothing under a text"),
    "few texts": (LABELS, "", "few texts"),
    "an image": ("</svg>", '<foreignObject width="1" height="1"/></svg>', "foreign elements"),
}


def mutated(old, new):
    assert SOUND.count(old) == 1
    return SOUND.replace(old, new)


@pytest.mark.long
@pytest.mark.xdist_group("browser")
def test_each_fault_is_found_and_no_other(browser):
    assert faults(measured(browser, SOUND)) == {}
    missed = [
        name
        for name, (old, new, kind) in MUTANTS.items()
        if kind not in faults(measured(browser, mutated(old, new)))
    ]
    assert missed == []


def test_a_bar_wider_than_its_value_is_found():
    assert list(counted.out_of_scale(SOUND)) == []
    for old, new in (
        ('width="200" height="8"', 'width="201" height="8"'),
        ('width="400" h', 'width="402" h'),
    ):
        [(kind, _), *_] = counted.out_of_scale(mutated(old, new))
        assert kind == "out of scale"


DOCUMENT = {
    "totals": {"params": 671026404352, "by_group": {"ffn": 5}, "rows": 1},
    "rows": [
        {"path": "layers.0.mixer.q_proj", "outputs": [[1, 2048, 7168]], "params": 7},
        {"path": "layers.0.mixer.k_proj", "outputs": [[1, 2048, 512]], "params": 3},
    ],
}


@every_row(
    ("address", "value", "kind"),
    [
        (("", "params"), 671026404352, None),
        (("", "by_group.ffn"), 5, None),
        (("by_group", "ffn"), 5, None),
        (("", "by_group.ffn+rows"), 6, None),
        (("layers.0.mixer", "params"), 10, None),
        (("layers.0.mixer.q_proj+layers.0.mixer.k_proj", "params"), 10, None),
        (("layers.0.mixer.q_proj", "outputs.0.1*outputs.0.2"), 2048 * 7168, None),
        (("layers.0.mixer", "params"), 7, "not what is counted"),
        (("layers.0.mixer.q_proj", "outputs.0.2"), 7168, None),
        (("layers.0.mixer.q_proj", "outputs.0.2"), 7169, "not what is counted"),
        (("layers.0.mixer.q_proj", "outputs.0.3"), 7168, "no such address"),
        (("layers.1.mixer.q_proj", "outputs.0.2"), 7168, "no such address"),
        (("", "by_group"), 5, "no such address"),
    ],
)
def test_a_value_is_that_of_its_address(address, value, kind):
    path, key = address
    svg = f'<svg><rect data-command="show" data-path="{path}" data-key="{key}" data-value="{value}"/></svg>'
    assert [found for found, _ in counted.miscounted(svg, lambda *_: DOCUMENT)] == ([kind] if kind else [])


@every_row(
    ("printed", "value", "right"),
    [
        ("671B", 671026404352, True),
        ("670B", 671026404352, False),
        ("37.6B", 37552282624, True),
        ("37.5B", 37552282624, False),
        ("68.6 KiB", 70272, True),
        ("70.3 KB", 70272, True),
        ("512 B", 512, True),
        ("7,168", 7168, True),
        ("7,168", 7169, False),
        ("78.4 GFLOP", 78.4e9, True),
        ("97.4%", 0.97449, True),
        ("97.5%", 0.97449, False),
        ("12.5 ms", 0.0125, True),
        ("softmax", 1, False),
    ],
)
def test_a_printed_number_is_a_rounding_of_its_value(printed, value, right):
    assert counted.is_rounding(printed, value) == right


def test_numbers_of_texts_have_addresses():
    def text(inside):
        return f'<svg xmlns="http://www.w3.org/2000/svg"><text>{inside}</text></svg>'

    assert list(counted.misprinted(text('q <tspan data-value="128">128</tspan> × Mamba2, 4-bit'))) == []
    assert [kind for kind, _ in counted.misprinted(text("128 heads"))] == ["number without an address"]
    assert [kind for kind, _ in counted.misprinted(text('<tspan data-value="128">127</tspan>'))] == [
        "no rounding of its value"
    ]


SHOW = {
    "rows": [
        {"path": "embedding.tokens", "layers": None},
        {"path": "layers.0.mixer.q_proj", "layers": [0, 1]},
        {"path": "layers.2.mixer.q_proj", "layers": [2]},
    ]
}


def test_above_110_layers_a_cell_is_a_run():
    many = {
        "rows": [
            {"path": "layers.0.mixer.q_proj", "layers": [*range(110), 111]},
            {"path": "layers.110.mixer.q_proj", "layers": [110]},
        ]
    }
    kinds = ("layers.0", "layers.110")
    runs = (("0", 'data-value="110"'), ("110", 'data-value="1"'), ("111", 'data-value="1"'))
    assert list(counted.misplaced(strip(kinds, runs), [many])) == []
    each = [(str(i), "") for i in range(112)]
    assert [kind for kind, _ in counted.misplaced(strip(kinds, each), [many])] == ["cells"]


def strip(kinds, cells):
    blocks = "".join(f'<g data-kind="{kind}"/>' for kind in kinds)
    return f"<svg>{blocks}{''.join(f'<rect data-layer={layer!r} {more}/>' for layer, more in cells)}</svg>"


@pytest.mark.parametrize(
    ("kinds", "cells", "faults_of"),
    [
        (("layers.0", "layers.2"), (("0", ""), ("1", ""), ("2", "")), []),
        (("layers.0", "layers.2"), (("0", 'data-value="2"'), ("2", 'data-value="1"')), ["cells"]),
        (("layers.0", "layers.2"), (("0", ""), ("1", ""), ("1", "")), ["cells"]),
        (("layers.0",), (("0", ""), ("1", ""), ("2", "")), ["kinds"]),
        (("layers.0", "layers.0", "layers.2"), (("0", ""), ("1", ""), ("2", "")), ["kinds"]),
        (("layers.0", "layers.2"), (("0", ""), ("1", "")), ["cells"]),
    ],
)
def test_kinds_and_cells_are_those_of_show(kinds, cells, faults_of):
    assert [kind for kind, _ in counted.misplaced(strip(kinds, cells), [SHOW])] == faults_of
