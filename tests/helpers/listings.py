"""What listing.json and __init__.pyi of `archcli.modules` and `archcli.ops` say, read off their source.

Nothing of archcli is imported, as a class that is not listed yet cannot be.
"""

import ast
import json
from ast import literal_eval

from own_source import ROOT, parsed

PACKAGES = ("modules", "ops")
STUB = '''"""What `{package}` has, for type checkers and editors; made with listing.json."""

{imports}
'''


def folder(package):
    """The folder of a package of archcli."""
    return ROOT / "archcli" / package


def files(package):
    """The parsed files of a package, by their name in it: `.networks.norm`."""
    whole = f"archcli.{package}"
    return {
        name.removeprefix(whole): tree for name, tree in parsed(f"archcli/{package}").items() if name != whole
    }


def exported(tree):
    """The public names of a file: what its `__all__` has that it defines, else its classes."""
    defined = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    stated = [literal_eval(node.value) for node in tree.body if assigned(node) == "__all__"]
    names = (node.name for node in defined if stated or isinstance(node, ast.ClassDef))
    return sorted(name for name in names if (name in stated[0] if stated else not name.startswith("_")))


def assigned(node):
    """The name that a statement gives a value; else empty."""
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    has_value = isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
    return target.id if has_value and isinstance(target, ast.Name) else ""


def names(package):
    """The public names of a package by file; files without any are left out."""
    found = {file: exported(tree) for file, tree in files(package).items()}
    return {file: some for file, some in found.items() if some}


def kinds(package, before):
    """The class of each kind by family: those of `before` in its order, then the new ones."""
    classes = {
        node.name: node
        for tree in files(package).values()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    found = {}
    for name, node in classes.items():
        kind, of = constants(node).get("kind"), family(node, classes)
        if kind and of:
            found.setdefault(of, {})[kind] = name
    return {
        key: dict(sorted(found[key].items(), key=lambda item: place(before.get(key, {}), item[0])))
        for key in sorted(found, key=lambda item: place(before, item))
    }


def place(order, key):
    """Where a key stands in a mapping; behind all others where it lacks it."""
    return [*order, key].index(key)


def constants(node):
    """The fields of a class that are set to a constant."""
    return {
        assigned(field): field.value.value
        for field in node.body
        if assigned(field) and isinstance(field.value, ast.Constant)
    }


def family(node, classes):
    """The family that a class or the nearest class above it states."""
    above = [classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes]
    own = constants(node).get("family")
    return own or next((found for found in (family(base, classes) for base in above) if found), "")


def stated(package):
    """listing.json of a package; empty where there is none yet."""
    path = folder(package) / "listing.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"names": {}, "kinds": {}}


def listing(package):
    """What listing.json should say."""
    return {"names": names(package), "kinds": kinds(package, stated(package)["kinds"])}


def stub(package):
    """The text of __init__.pyi."""
    lines = [
        f"from archcli.{package}{file} import {', '.join(f'{name} as {name}' for name in some)}"
        for file, some in names(package).items()
    ]
    return STUB.format(package=f"archcli.{package}", imports="\n".join(lines))


def write(package):
    """Write both files, an entry a line."""
    parts = [
        f'"{part}": {{\n'
        + ",\n".join(f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in entries.items())
        + "\n}"
        for part, entries in listing(package).items()
    ]
    (folder(package) / "listing.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    (folder(package) / "__init__.pyi").write_text(stub(package), encoding="utf-8")
