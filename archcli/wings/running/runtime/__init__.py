"""Architectures in torch: built as an nn.Module, run, timed and verified.

Importing this package imports torch; where that is missing it raises an ArchError that says how to add it.
"""

from archcli.wings.running.runtime.require import missing_package

try:
    from archcli.wings.running.runtime.dtypes import require_device, weights_dtype
    from archcli.wings.running.runtime.model.build import Cache, LanguageModel, build_model, set_expert_form
    from archcli.wings.running.runtime.model.node import ModuleNode
except ModuleNotFoundError as missing:
    raise missing_package(missing) from None

__all__ = [
    "Cache",
    "LanguageModel",
    "ModuleNode",
    "build_model",
    "require_device",
    "set_expert_form",
    "weights_dtype",
]
