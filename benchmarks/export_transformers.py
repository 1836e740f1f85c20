"""Does each preset's exported config.json build the preset, by transformers' own word and by archcli's?

    python benchmarks/export_transformers.py [PRESET ...] > benchmarks/export_transformers.csv

Of every preset that comes from a class: `archcli export`, then `AutoConfig` of the folder and the class of
`AutoModel*` on the meta device. A line says whether the class's parameters are those that archcli counts, and
whether the rows of the file that archcli reads are those of the preset.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import transformers

import archcli
from archcli.errors import ArchError
from archcli.load.foreign.class_names import preset_types
from archcli.wings.shapes.export.families import has_class
from archcli.wings.shapes.export.settings import runs_alike

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
import their_class  # what the tests count of a class

AUTO = ("CausalLM", "Seq2SeqLM", "MaskedLM", "PreTraining", "ImageTextToText", "SpeechSeq2Seq")


def built(folder: str) -> Any:
    """The model that `AutoModel*` builds of a folder's config.json, on meta."""
    config = transformers.AutoConfig.from_pretrained(folder)
    named = json.loads((Path(folder) / "config.json").read_text())["architectures"][0]
    autos = [*(getattr(transformers, f"AutoModelFor{kind}") for kind in AUTO), transformers.AutoModel]
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for auto in autos:
            if named in names_of(auto, config):
                return auto.from_config(config)
    raise ValueError(f"no AutoModel has {named}")


def names_of(auto: Any, config: Any) -> list[str]:
    """The classes that an `AutoModel*` has for a config."""
    classes = vars(auto)["_model_mapping"].get(type(config), ())
    return [cls.__name__ for cls in (classes if isinstance(classes, tuple | list) else (classes,))]


def parameters(model: Any) -> int:
    """Its parameters, with frozen ones that files store."""
    computed = set(model._keys_to_ignore_on_save or ())  # noqa: SLF001 it has no public name
    frozen = [p for name, p in model.named_parameters() if not p.requires_grad and name not in computed]
    return their_class.params(model) + sum(p.numel() for p in frozen)


def line_of(name: str) -> dict[str, Any]:
    """What is compared for a preset."""
    model = archcli.load(name)
    model = model.replace(towers=(), beside=())
    try:
        exported = archcli.export(name)
    except ArchError as error:
        return {"class": "", "difference": "", "rows": "", "problem": f"{error.problems[0]}"}
    with tempfile.TemporaryDirectory() as folder:
        exported.save(folder)
        line = {"class": exported.facts["class"], "difference": "", "rows": ""}
        try:
            line["rows"] = "equal" if runs_alike(archcli.load(Path(folder)), model) else "differ"
            theirs = parameters(built(folder))
        except Exception as error:  # noqa: BLE001 what any class may raise
            return {**line, "problem": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {**line, "difference": theirs - archcli.count_params(model).totals["params"], "problem": ""}


if __name__ == "__main__":
    print("preset,class,difference,rows,seconds,problem", flush=True)
    for name in sys.argv[1:] or sorted(name for name, kind in preset_types().items() if has_class(kind)):
        start = perf_counter()
        line = line_of(name)
        problem = line.pop("problem").replace(",", ";")[:160]
        print(name, *line.values(), round(perf_counter() - start, 1), problem, sep=",", flush=True)
