"""`archcli export`: an architecture in the words of others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from archcli.api.asking.question import Option
from archcli.api.asking.subject import subject
from archcli.commands.line.options import Json, Set, asking
from archcli.commands.line.written import check_apart, say_written
from archcli.render.write import check_new_files, check_writable, descriptor, write
from archcli.wings.shapes.api.export import CONFIG, MUP, ExportOptions, export_of, mup_text

Written = Annotated[
    Path | None,
    Option(
        "Of --to hf a folder, in which config.json is written; else a file. Without it, it is printed.",
        "-o",
        "DIR",
        name="output",
        writes=True,
    ),
]


@asking(ExportOptions)
def run(
    options: ExportOptions, *, overrides: Set = None, output: Written = None, as_json: Json = False
) -> None:
    """Write an architecture as a config.json, PyTorch or a YAML.

    A config.json is found by asking its import backwards: it is the file that archcli reads as this model,
    setting for setting. Where no class of transformers has all of it, the nearest is named, with what it
    lacks, and nothing is written. A file of PyTorch is the model's own forward, written down: classes, shapes
    in comments, a loop over layers, no cache, and nothing of archcli in it. With --mup, what muP
    (arXiv:2203.03466) multiplies: initialization, learning rates, outputs and scores of attention.
    """
    check_apart(output, as_json=as_json)
    is_file = output is not None and descriptor(output) is None
    if output is not None and is_file:
        extra = [] if options.mup is None else [MUP]
        is_folder = options.to == "hf"
        check_new_files(output if is_folder else output.parent, [*([CONFIG] if is_folder else []), *extra])
        check_writable(None if is_folder else output)
    loaded = subject(options.model, overrides)
    if options.mup is not None and not is_file and not as_json:
        write(mup_text(loaded, options.mup), None)
        return
    exported = export_of(loaded, options)
    place = exported.save(output) if output is not None and is_file else output
    inputs = {"to": options.to, "model_type": options.model_type, "set": loaded.overrides or None}
    say_written(
        "export", [loaded.name], inputs, place, as_json=as_json, notes=exported.notes, rows=[exported.facts]
    )
    if not is_file and not as_json:
        write(exported.text, None)
