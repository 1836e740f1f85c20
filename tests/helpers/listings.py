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
    "archcli.modules": ["modules/**/*.py"],
    "archcli.ops": ["ops/**/*.py"],
    HF: [f"load/huggingface/{name}.py" for name in ("parts/*", "config*", "family", "weights/[mn]a*")],
}
"""By package, the files of `archcli/` whose names it has."""
STUB = '''"""What `{package}` has, for type checkers and editors; made with listing.json."""

{imports}
'''


def folder(package):
    """The folder of a package."""
    return ROOT / package.replace(".", "/")


@cache
def files(package):
    """The parsed files whose names a package has, by their dotted names."""
    paths = sorted(
        {
            path
            for pattern in PACKAGES[package]
            for path in (ROOT / "archcli").glob(pattern)
            if path.stem != "__init__"
        }
    )
    return {module_name(path): ast.parse(path.read_text()) for path in paths}


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


def names(package):
    """The public names of a package by file; files without any are left out."""
    found = {
        f".{name.removeprefix(f'{package}.')}" if name.startswith(package) else name: exported(package, tree)
        for name, tree in files(package).items()
    }
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


def listing(package):
    """What listing.json should say."""
    found = kinds(package, stated(package).get("kinds", {}))
    return {"names": names(package), **({"kinds": found} if found else {})}


def stub(package):
    """The text of __init__.pyi."""
    lines = [
        f"from {package + file if file.startswith('.') else file} import "
        f"{', '.join(f'{name} as {name}' for name in some)}"
        for file, some in names(package).items()
    ]
    return STUB.format(package=package, imports="\n".join(lines))


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
