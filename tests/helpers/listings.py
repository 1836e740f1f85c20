"""What listing.json and __init__.pyi of lazy packages say, read off their source.

Nothing of archcli is imported, as a class that is not listed yet cannot be.
"""

import ast
import json
from ast import literal_eval
from functools import cache

from own_source import ROOT, module_name

HF = "archcli.load.huggingface"
"""The package that has functions and constants, too."""
PACKAGES = {
    "archcli.modules": ["**/*.py"],
    "archcli.ops": ["**/*.py"],
    HF: ["parts/*.py", "config*.py", "family.py", "weights/[mn]a*.py", "processing.py"],
}
"""By package, the files in its folder, and in the rooms of wings that add to it, whose names it has."""
STUB = '''"""What `{package}` has, for type checkers and editors; made with listing.json."""

{imports}
'''


def homes(package):
    """A package of the core, and the rooms of wings that add to it: wings.media.ops to archcli.ops."""
    room = package.rpartition(".")[2]
    wings = sorted(path.name for path in (ROOT / "archcli/wings").iterdir() if (path / room).is_dir())
    return [package, *(f"archcli.wings.{wing}.{room}" for wing in wings)]


HOMES = {home: package for package in PACKAGES for home in homes(package)}
"""The package of the core that the names of a folder belong to."""


def folder(package):
    """The folder of a package."""
    return ROOT / package.replace(".", "/")


@cache
def files(home):
    """The parsed files whose names a folder has, by their dotted names."""
    patterns = PACKAGES[HOMES[home]]
    paths = sorted({path for pattern in patterns for path in folder(home).glob(pattern)})
    return {module_name(path): ast.parse(path.read_text()) for path in paths if path.stem != "__init__"}


def exported(package, tree):
    """The public names of a file: what its `__all__` has that it defines, else its classes, or all names."""
    defined = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    stated = [literal_eval(node.value) for node in tree.body if "__all__" in assigned(node)]
    if stated:
        return sorted({node.name for node in defined} & {*stated[0]})
    names = {node.name for node in defined if isinstance(node, ast.ClassDef) or package == HF}
    if package == HF:
        names |= {name for node in tree.body for name in assigned(node) if len(name) > 1}
    return sorted(name for name in names if not name.startswith("_"))


def assigned(node):
    """The names that a statement gives values."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return []
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


def names(home):
    """The public names of a folder by file; files without any are left out."""
    by_file = {
        f".{name.removeprefix(f'{home}.')}": exported(HOMES[home], tree) for name, tree in files(home).items()
    }
    return {file: some for file, some in by_file.items() if some}


@cache
def classes(home):
    """The classes of a folder by name."""
    return {
        node.name: node
        for tree in files(home).values()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def kinds(home, before):
    """The class of each kind by family: those of `before` in its order, then the new ones."""
    everywhere = {name: node for each in homes(HOMES[home]) for name, node in classes(each).items()}
    by_family = {}
    for name, node in classes(home).items():
        kind, of = constants(node).get("kind"), family(node, everywhere)
        if kind and of:
            by_family.setdefault(of, {})[kind] = name
    return {
        key: dict(sorted(by_family[key].items(), key=lambda item: place(before.get(key, {}), item[0])))
        for key in sorted(by_family, key=lambda item: place(before, item))
    }


def place(order, key):
    """Where a key stands in a mapping; behind all others where it lacks it."""
    return [*order, key].index(key)


def constants(node):
    """The fields of a class that are set to a constant."""
    return {
        name: field.value.value
        for field in node.body
        for name in assigned(field)
        if isinstance(field.value, ast.Constant)
    }


def family(node, classes):
    """The family that a class or the nearest class above it states."""
    above = [classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes]
    own = constants(node).get("family")
    return own or next((found for found in (family(base, classes) for base in above) if found), "")


def stated(package):
    """listing.json of a package; empty where there is none yet."""
    path = folder(package) / "listing.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def listing(home):
    """What listing.json of a folder should say."""
    by_family = kinds(home, stated(home).get("kinds", {}))
    return {"names": names(home), **({"kinds": by_family} if by_family else {})}


def stub(package):
    """The text of __init__.pyi of a package of the core, with the names that wings add."""
    lines = [
        f"from {home}{file} import {', '.join(f'{name} as {name}' for name in some)}"
        for home in homes(package)
        for file, some in names(home).items()
    ]
    return STUB.format(package=package, imports="\n".join(lines))


def top_stub():
    """The text of archcli/__init__.pyi: the public names of the core, and the functions of wings."""
    tree = ast.parse((ROOT / "archcli/__init__.py").read_text(encoding="utf-8"))
    stated = {name: node.value for node in tree.body for name in assigned(node)}
    by_command, by_file = literal_eval(stated["BY_COMMAND"]), literal_eval(stated["HOMES"])
    homes = {name: f"archcli{file}" for file, some in by_file.items() for name in some}
    pairs = [(home, name, name) for name, home in homes.items()]
    pairs += [(homes[name], name, word) for word, name in by_command.items() if word not in BUILT_IN]
    for path in sorted((ROOT / "archcli/wings").glob("*/wing.json")):
        offered = json.loads(path.read_text(encoding="utf-8")).get("archcli.functions", {})
        pairs += [(*place.split(":"), word) for word, place in offered.items()]
    lines = [f"from {home} import {name} as {word}" for home, name, word in sorted({*pairs, LOAD})]
    words = "\n".join(f'    "{word}",' for word in sorted({word for *_, word in [*pairs, LOAD]}))
    lines += ["", "__version__: str", f"__all__ = [\n{words}\n]"]
    return STUB.format(package="archcli", imports="\n".join(lines))


BUILT_IN = {"list", "rule", "schema"}
"""Words that have another meaning in Python."""
LOAD = ("archcli.load", "load", "load")


def write(home):
    """Write listing.json of a folder, an entry a line; and of a package of the core its __init__.pyi."""
    parts = [
        f'"{part}": {{\n'
        + ",\n".join(f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in entries.items())
        + "\n}"
        for part, entries in listing(home).items()
    ]
    (folder(home) / "listing.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    if home in PACKAGES:
        (folder(home) / "__init__.pyi").write_text(stub(home), encoding="utf-8")
    (ROOT / "archcli/__init__.pyi").write_text(top_stub(), encoding="utf-8")
