"""listing.json and __init__.pyi of lazy packages say what the source does."""

import pytest

import listings

RENEWAL = "pytest -n0 --renew tests/modules/test_listings.py"


@pytest.mark.parametrize("package", listings.PACKAGES)
def test_a_listing_has_what_the_source_says(package, renew):
    if renew:
        listings.write(package)
    made, stated = listings.listing(package), listings.stated(package)
    assert stated == made, RENEWAL
    assert (listings.folder(package) / "__init__.pyi").read_text(encoding="utf-8") == listings.stub(
        package
    ), RENEWAL


@pytest.mark.parametrize("package", listings.PACKAGES)
def test_a_name_stands_in_one_file(package):
    found = [name for names in listings.names(package).values() for name in names]
    assert len(found) == len(set(found)), sorted(name for name in found if found.count(name) > 1)


@pytest.mark.parametrize("package", listings.PACKAGES)
def test_no_name_is_that_of_a_file_of_the_package(package):
    """An import of the file would put it in the place of the name."""
    files = {path.stem for path in listings.folder(package).iterdir() if path.suffix in ("", ".py")}
    assert not files.intersection(*[{name for names in listings.names(package).values() for name in names}])
