"""listing.json of the families: what their files say of each model_type, and how it is written."""

import json
from importlib import import_module
from pathlib import Path

from archcli import plugins
from archcli.load.huggingface import family as one_family
from archcli.load.huggingface.registry import PACKAGE
from archcli.plugins import listings

PACKAGES = [PACKAGE, *(package for package, _ in listings(PACKAGE))]
"""The core's families, and those of wings."""


def folder(package):
    """The folder of a package of families."""
    return Path(import_module(package).__file__).parent


def files():
    """The files of families, by package and name."""
    paths = [(package, path) for package in PACKAGES for path in sorted(folder(package).glob("[a-z]*.py"))]
    return [(package, path.stem) for package, path in paths]


def all_families():
    """(its package, its file, the Family) of each model_type, by the files themselves: all are imported."""
    by_kind = {}
    for package, file in files():
        for kind, family in import_module(f"{package}.{file}").FAMILIES.items():
            assert kind not in by_kind, f"{kind} is in {by_kind[kind][1]}.py and in {file}.py"
            by_kind[kind] = (package, file, family)
    return by_kind


def rows():
    """The file and the description of each model_type."""
    return {kind: {"file": file, "what": family.about} for kind, (_, file, family) in all_families().items()}


def write(entries):
    """Write the listings, a line a model_type; a wrapper, which has no file, stands in the core's."""
    places = {kind: package for kind, (package, *_) in all_families().items()}
    for package in PACKAGES:
        kinds = sorted((kind for kind in entries if places.get(kind, PACKAGE) == package), key=str.lower)
        lines = ",\n".join(f'"{kind}": {json.dumps(entries[kind], ensure_ascii=False)}' for kind in kinds)
        (folder(package) / "listing.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    one_family._text.cache_clear()
    plugins.read.cache_clear()
