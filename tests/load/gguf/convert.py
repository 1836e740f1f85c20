"""What llama.cpp's own converter writes of tiny models: metadata, names and shapes of tensors.

Regenerates `converted.json` from the configs beside it. None of our code says what a file holds.

    python tests/load/gguf/convert.py LLAMA_CPP [NAME …]

LLAMA_CPP is a checkout of github.com/ggml-org/llama.cpp (its `conversion/` and `gguf-py/`; the source of the
package llama-cpp-python holds one under `vendor/`). A model of transformers is made of each config with
random weights. A class that its repository holds has none there: its tensors are made under the names that
our map gives them, which the converter refuses where it does not know one. Vocabularies are made up.
"""

import json
import logging
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

from archcli import load
from archcli.load.gguf.tensors import counted_weights
from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.weights.map import Auxiliary, Parts, fill_in, parts_of

HERE = Path(__file__).parent
CONFIGS, CONVERTED = HERE / "converted_configs.json", HERE / "converted.json"
AS_PUBLISHED = {"kimi_linear"}
"""Types whose class in transformers stores its checkpoints in other words than those of published ones."""

AS_STATED = {"granitemoehybrid", "nemotron_h"}
"""Types whose newer class has other words for the kinds of layers than those the converter looks for."""

VOCABULARY = ("general.", "tokenizer.", "GGUF.")


def folder_of(config: dict[str, Any]) -> tuple[Path, str]:
    """A folder with the checkpoint of a tiny model, and the class that the converter takes it for."""
    folder = Path(tempfile.mkdtemp())
    if config["model_type"] not in transformers.CONFIG_MAPPING or config["model_type"] in AS_PUBLISHED:
        save_file(tensors_of(config), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config))
        return folder, config["architectures"][0]
    torch.manual_seed(0)
    stated = {key: value for key, value in config.items() if key != "architectures"}
    theirs = transformers.AutoConfig.for_model(**stated)
    named = config.get("architectures", [""])[0]
    model = (
        getattr(transformers, named)(theirs)
        if named
        else transformers.AutoModelForCausalLM.from_config(theirs)
    )
    model.float().save_pretrained(folder)
    return folder, type(model).__name__


def tensors_of(config: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Tensors of zeros under the names that a checkpoint of this config has."""
    ours, made = dict(counted_weights(load(config))), {}
    for pattern, rule in weight_map(config).rules.items():
        if not isinstance(rule, Auxiliary):
            made |= stored(re.sub(r"[\[\]]", "", pattern), parts_of(rule), ours)
    return made


def stored(pattern: str, parts: Parts, ours: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """The tensors of one rule, for every layer that has its weights, which are taken out of `ours`."""
    made = {}
    first = re.escape(parts.ours[0]).replace(r"\*", "([^.]+)")
    for match in [match for name in ours if (match := re.fullmatch(first, name))]:
        names = [fill_in(template, list(match.groups())) for template in parts.ours]
        if not all(name in ours for name in names):
            continue
        shapes = [ours.pop(name) for name in names]
        name, shape = fill_in(pattern, list(match.groups())), list(shapes[0])
        shape[parts.axis] = sum(each[parts.axis] for each in shapes)
        if "#" in name:
            made |= {name.replace("#", str(i)): torch.zeros(shape[1:]) for i in range(shape[0])}
        else:
            made[name] = torch.zeros(shape)
    return made


def converted(config: dict[str, Any]) -> dict[str, Any]:
    """The metadata and tensors of the file that the converter writes."""
    import gguf
    from conversion import get_model_class

    folder, name = folder_of(config)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(config)))
    cls = get_model_class(name)
    known = type(cls.__name__, (cls,), {"set_vocab": made_up_vocabulary, "model_arch": cls.model_arch})
    stated = {"hparams": dict(config)} if config["model_type"] in AS_STATED else {}
    known(folder, gguf.LlamaFileType.ALL_F32, folder / "model.gguf", eager=True, **stated).write()
    reader = gguf.GGUFReader(folder / "model.gguf")
    kept = {key: field.contents() for key, field in reader.fields.items() if not key.startswith(VOCABULARY)}
    architecture = reader.fields["general.architecture"].contents()
    return {
        "config": {"architectures": [name], **config},
        "metadata": {"general.architecture": architecture, **kept},
        "tensors": {tensor.name: [int(size) for size in tensor.shape][::-1] for tensor in reader.tensors},
    }


def tokenizer(config: dict[str, Any]) -> dict[str, Any]:
    """What a tokenizer's file says of a vocabulary of as many tokens as the config states."""
    tokens = {f"token {i}": i for i in range(config["vocab_size"])}
    return {"model": {"vocab": tokens}, "added_tokens": []}


def made_up_vocabulary(model: Any) -> None:
    """In place of a tokenizer's files: as many tokens as the config states."""
    count = model.hparams["vocab_size"]
    model.gguf_writer.add_tokenizer_model("gpt2")
    model.gguf_writer.add_token_list([f"token {i}" for i in range(count)])


def main(llama_cpp: str, names: list[str]) -> None:
    """Write what is converted of these names, or of all, among those that stand already."""
    logging.disable(logging.CRITICAL)
    sys.path[:0] = [llama_cpp, f"{llama_cpp}/gguf-py"]
    configs, kept = json.loads(CONFIGS.read_text()), {}
    if CONVERTED.exists() and names:
        kept = json.loads(CONVERTED.read_text())
    for name in names or configs:
        kept[name] = converted(configs[name])
        sys.stderr.write(f"{name}\n")
    lines = ",\n".join(f'"{name}": {json.dumps(entry)}' for name, entry in sorted(kept.items()))
    CONVERTED.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
