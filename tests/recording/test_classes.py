"""The class a torch operation's time belongs to, by its name and by the row it ran in."""

import pytest

from archcli.graph import OpClass, Part
from archcli.ops.base import bias, contraction, elementwise
from archcli.wings.serving.recorded.classes import TimeClass, class_of
from archcli.wings.serving.recorded.operations import OpKey
from table import every_row

LINEAR = (contraction("matmul", 48, [(6, 0), (8, "weight")], 12), bias(12, 4))
NORM = (Part("normalize", OpClass.NORMALIZATION, 7, 1, 1),)
SCALE = (elementwise("scale", 6),)
DRAWING = ["bernoulli", "native_dropout", "uniform", "normal", "rand", "randint", "multinomial"]


@every_row("name", DRAWING)
@every_row("parts", [LINEAR, NORM, SCALE], ids=["linear", "norm", "scale"])
def test_drawing_random_numbers_is_a_class_of_its_own_in_any_row(name, parts):
    assert class_of(OpKey("layers.0.x", "forward", name), parts) == "random"
    assert "random" in set(TimeClass)


SCAN = (
    *LINEAR,
    Part(
        "accumulate",
        OpClass.ELEMENTWISE,
        6,
        6,
        6,
        (Part("d", OpClass.ELEMENTWISE, 6, 6, 6, scans=True),),
        scans=True,
    ),
)


@pytest.mark.parametrize("phase", ["forward", "backward"])
@pytest.mark.parametrize("name", ["cumsum", "linalg_solve_triangular"])
def test_what_goes_from_token_to_token_is_a_class_of_its_own_in_a_scan(name, phase):
    assert class_of(OpKey("layers.0.mixer.scan", phase, name), SCAN) == "recurrence"
    assert class_of(OpKey("layers.0.x", phase, name), SCALE) == "elementwise"
    assert class_of(OpKey("layers.0.mixer.scan", phase, "bmm"), SCAN) == "contraction"
    assert class_of(OpKey("layers.0.mixer.scan", phase, "exp"), SCAN) == "elementwise"


OTHERS = {
    "the rest of a dropout is arithmetic": ("div", "forward", SCALE, "elementwise"),
    "gradients that meet": ("add", "sums", LINEAR, "elementwise"),
    "a product": ("addmm", "forward", LINEAR, "contraction"),
    "a bias's gradient": ("sum", "backward", LINEAR, "normalization"),
    "anything within a norm": ("mul", "forward", NORM, "normalization"),
    "a fused kernel": ("_scaled_dot_product_flash_attention_for_cpu", "forward", LINEAR, "fused_attention"),
}


@every_row(("name", "phase", "parts", "expected"), OTHERS.values(), ids=OTHERS)
def test_everything_else_goes_by_its_row(name, phase, parts, expected):
    assert class_of(OpKey("layers.0.x", phase, name), parts) == expected
