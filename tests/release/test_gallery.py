"""The gallery of docs/ shows every preset as it is drawn now."""

import re

import pytest

import gallery

NAMES = [record["name"] for record in gallery.records()]


def test_the_page_is_current():
    assert (gallery.DOCS / "gallery.md").read_text() == gallery.page(gallery.records()), (
        "python release/gallery.py renews it"
    )


def test_every_preset_has_one_drawing_that_leads_to_its_figures():
    page = (gallery.DOCS / "gallery.md").read_text()
    drawn = re.findall(r"\(pictures/gallery/(\S+)\.svg\)\]\(#(\S+)\)", page)
    assert sorted(drawn) == [(name, name) for name in NAMES]
    assert sorted(re.findall(r'<a id="(\S+)"></a>', page)) == NAMES
    assert sorted(path.stem for path in gallery.PICTURES.iterdir()) == NAMES


def test_the_drawings_are_small():
    assert sum(path.stat().st_size for path in gallery.PICTURES.iterdir()) < 3e6


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_is_current(name):
    assert (gallery.PICTURES / f"{name}.svg").read_text() == gallery.drawing_of(name), (
        "python release/gallery.py renews it"
    )
