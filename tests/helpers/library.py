"""Every class of the library, for tests that must leave none out.

archcli itself imports what a model uses.
"""

import importlib
import pkgutil

import archcli.modules
from archcli.modules.spec.base import Spec


def load_every_module():
    for module in pkgutil.walk_packages(archcli.modules.__path__, "archcli.modules."):
        importlib.import_module(module.name)


def classes(base=Spec):
    """A class and all below it that the library defines."""
    below = [cls for cls in base.__subclasses__() if cls.__module__.startswith("archcli.")]
    return [base, *(inner for cls in below for inner in classes(cls))]
