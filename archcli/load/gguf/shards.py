"""A model in one GGUF file, or split into several in one folder."""

from __future__ import annotations

import re
from pathlib import Path

from archcli.errors import ArchError, Problem
from archcli.load.gguf.header import MOST_TENSORS, Header, read

SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})")


def read_whole(path: Path) -> Header:
    """The header of a GGUF file; the parts of a split model, all in one folder, are merged."""
    header = read(path)
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return header
    match = SHARD.fullmatch(path.stem)
    if match is None or int(match["count"]) != count:
        what = f"one of {count} parts of a model, under a name that does not say which"
        raise ArchError(Problem(what, "NAME-00001-of-…", path=str(path)))
    files = [path.with_name(f"{match['stem']}-{i:05}-of-{count:05}.gguf") for i in range(1, count + 1)]
    if absent := [file.name for file in files if not file.is_file()]:
        what = f"one of {count} parts of a model, of which {len(absent)} are not beside it"
        raise ArchError(Problem(what, f"the first that is missing is {absent[0]}", path=str(path)))
    metadata, tensors = header.metadata, dict(header.tensors)
    for file in files:
        part = read(file)
        if file == files[0]:
            metadata = {**metadata, **part.metadata}
        tensors |= part.tensors
        if len(tensors) > MOST_TENSORS:
            what = f"the parts of the model hold more than {MOST_TENSORS:,} tensors, which is beyond reason"
            raise ArchError(Problem(what, "are they parts of one model?", path=str(path)))
    return Header(metadata, tensors)


def model_name(path: Path) -> str:
    """The file's name without suffix and part number."""
    match = SHARD.fullmatch(path.stem)
    return match["stem"] if match else path.stem
