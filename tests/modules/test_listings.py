"""listing.json and __init__.pyi of lazy packages say what the source does."""

import pytest

import archcli
import listings

RENEWAL = "pytest -n0 --renew tests/modules/test_listings.py"


@pytest.mark.parametrize("home", listings.HOMES)
def test_a_listing_has_what_the_source_says(home, renew):
    if renew:
        listings.write(home)
    assert listings.stated(home) == listings.listing(home), RENEWAL


@pytest.mark.parametrize("package", listings.PACKAGES)
def test_a_stub_has_the_names_of_all_wings(package):
    stub = (listings.folder(package) / "__init__.pyi").read_text(encoding="utf-8")
    assert stub == listings.stub(package), RENEWAL


def test_the_stub_of_archcli_has_its_public_names():
    stub = (listings.ROOT / "archcli/__init__.pyi").read_text(encoding="utf-8")
    assert stub == listings.top_stub(), RENEWAL
    named = {line.rpartition(" as ")[2] for line in stub.splitlines() if " as " in line}
    assert named == {*archcli.__all__}


@pytest.mark.parametrize("package", listings.PACKAGES)
def test_a_name_stands_in_one_file(package):
    by_file = [names for home in listings.homes(package) for names in listings.names(home).values()]
    found = [name for names in by_file for name in names]
    assert len(found) == len(set(found)), sorted(name for name in found if found.count(name) > 1)


@pytest.mark.parametrize("package", listings.PACKAGES)
def test_no_name_is_that_of_a_file_of_the_package(package):
    """An import of the file would put it in the place of the name."""
    files = {path.stem for path in listings.folder(package).iterdir() if path.suffix in ("", ".py")}
    names = {
        name for home in listings.homes(package) for some in listings.names(home).values() for name in some
    }
    assert not files & names
