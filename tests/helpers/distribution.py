"""A Python distribution as pip leaves it on disk, without pip.

Its modules, and the metadata that names its entry points.
"""

from archcli import plugins
from archcli.load.huggingface import registry
from archcli.modules.spec import kinds


def installed(folder, name, modules, entry_points, group=kinds.GROUP):
    """Lay a distribution down in a folder: source by module, "package.module:Class" by kind."""
    info = folder / f"{name}-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    lines = [f"{kind} = {place}" for kind, place in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)


def forget_outsiders(monkeypatch):
    """Ask for installed distributions anew, here and by the tests that follow.

    Nothing is registered meanwhile.
    """
    monkeypatch.setattr(kinds, "registered", {})
    monkeypatch.setattr(kinds, "_conforming", _fresh(kinds._conforming))
    fresh = _fresh(plugins.installed)
    for asking in (kinds, registry):
        monkeypatch.setattr(asking, "installed", fresh)


def _fresh(remembered):
    from functools import cache

    return cache(remembered.__wrapped__)
