"""A file of the hub against its config: what is explained of it, and what is wrong."""

from archcli.load.huggingface.importer import weight_map
from archcli.wings.running.weights.checkpoint import compare
from importing import imported_file


def against(config, held):
    return compare(imported_file(config), held, weight_map(config))


def told(found):
    """(name, reason) of all that is explained."""
    return {
        line.name: line.reason
        for line in found.lines
        if line.status not in {"same", "missing", "unexpected", "shape"}
    }


def wrong(found):
    return {
        (line.status, line.name) for line in found.lines if line.status in {"missing", "unexpected", "shape"}
    }
