"""Every class of the library, for tests that must leave none out.

archcli itself imports what a model uses.
"""

import importlib
import pkgutil

from archcli.modules.spec.base import Spec
from archcli.plugins import listings


def load_every_module():
    """Import every module of the library, those of wings among them."""
    for name in ("archcli.modules", *(wing for wing, _ in listings("archcli.modules"))):
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)


def classes(base=Spec):
    """A class and all below it that the library defines."""
    below = [cls for cls in base.__subclasses__() if cls.__module__.startswith("archcli.")]
    return [base, *(inner for cls in below for inner in classes(cls))]
