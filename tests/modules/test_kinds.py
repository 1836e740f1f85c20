"""The table of kinds says what the classes say, and a model loads the files of what it is made of and no others."""

import pytest

import archcli.modules
import archcli.ops
from archcli.modules import kinds
from library import classes, load_every_module

load_every_module()


def test_the_table_names_every_class_that_has_a_kind():
    stated = {
        (cls.family, kinds.kind_of(cls)): f"{cls.__module__}:{cls.__qualname__}"
        for cls in classes()
        if kinds.kind_of(cls)
    }
    table = {
        (family, kind): place for family, places in kinds.TABLE.items() for kind, place in places.items()
    }
    assert table == stated


@pytest.mark.parametrize("package", [archcli.modules, archcli.ops], ids=lambda package: package.__name__)
def test_every_public_name_is_found_in_its_own_file(package):
    for submodule, names in package.HOMES.items():
        for name in names:
            assert getattr(package, name).__module__ in (package.__name__ + submodule, "typing"), name


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'Liner'"):
        _ = archcli.ops.Liner
