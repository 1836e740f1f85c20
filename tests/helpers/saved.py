"""Folders as Hugging Face saves the tiny models of the parity table, and changes to them."""

import json

from safetensors.torch import load_file, save_file

from parity.witness import witness


def saved(name, path, **options):
    """The parity table's model of this name, saved there."""
    witness(name).model.save_pretrained(path, **options)
    return path


def edited(path, change):
    """The same folder, its tensors changed."""
    tensors = load_file(path / "model.safetensors")
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path / "model.safetensors")
    return path


def stated(path, **keys):
    """The same folder, its config.json saying otherwise."""
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, **keys}))
    return path
