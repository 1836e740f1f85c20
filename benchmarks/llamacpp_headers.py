"""GGUF files without data: the header that llama.cpp's converter writes of a config.json.

transformers' class of the config says names and shapes of a checkpoint, on torch's meta device; the
converter maps them, chooses a type for each and writes metadata. The file is as long as a real one, but
sparse: its tensors are never read.
"""

import json
import math
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.core_model_loading import revert_weight_conversion

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "benchmarks/measured/llamacpp_dry_run_configs.json"
ORACLE, PUBLISHED = ROOT / "tests/oracle/configs", ROOT / "tests/mappings/published.json"

AS_STATED = {"granitemoehybrid", "nemotron_h"}
"""Types whose class in transformers has other words for the kinds of layers than the converter looks for."""

BLOCK = 32
"""Weights of a block of MXFP4: 16 bytes and a scale."""

MOST_MADE = 3 * 10**8
BUFFERS = ("inv_freq", ".masked_bias", "attn.bias", "attention.bias")


def config_of(model: str) -> dict[str, Any]:
    """The config.json of a preset, from the tables of the repository."""
    if (file := ORACLE / f"{model}.json").exists():
        stated = json.loads(file.read_text())
    else:
        own, published = json.loads(CONFIGS.read_text()), json.loads(PUBLISHED.read_text())
        stated = own.get(model) or published[model]
    return stated.get("config", stated)


def checkpoint_of(config: dict[str, Any]) -> tuple[str, dict[str, tuple[int, ...]]]:
    """The class of a config, and names and shapes of the tensors that it saves."""
    text = config.get("text_config", config)
    stated = {key: value for key, value in text.items() if key != "architectures"}
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**stated))
    kept = model.state_dict()
    for name in model.all_tied_weights_keys:
        kept.pop(name, None)
    saved = revert_weight_conversion(model, kept).items()
    shapes = {name: tuple(tensor.shape) for name, tensor in saved if not name.endswith(BUFFERS)}
    return config.get("architectures", [type(model).__name__])[0], shapes


def in_mxfp4(weights: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Experts of gpt-oss as its checkpoint has them: blocks of 32 weights, and a scale each."""
    made = {}
    for name, shape in weights.items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            experts, inner, outer = shape
            made[f"{name}_blocks"] = (experts, outer, inner // BLOCK, BLOCK // 2)
            made[f"{name}_scales"] = (experts, outer, inner // BLOCK)
        else:
            made[name] = shape
    return made


def write_header(checkout: Path, model: str, form: str, file: Path) -> None:
    """Write the header of a preset's file in a format of the converter: bf16, f16, q8_0 or mxfp4."""
    if str(checkout) not in sys.path:
        sys.path[:0] = [str(checkout), str(checkout / "gguf-py")]
    import gguf
    from conversion import get_model_class

    config = config_of(model)
    name, weights = checkpoint_of(config)
    if form == "mxfp4":
        config, weights = config | {"quantization_config": {"quant_method": "mxfp4"}}, in_mxfp4(weights)
    of_file = gguf.LlamaFileType[f"MOSTLY_{'Q8_0' if form == 'mxfp4' else form.upper()}"]
    folder = file.parent / model
    config = {"architectures": [name], **config}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {f"token {i}": i for i in range(config.get("text_config", config)["vocab_size"])}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []}))
    cls = get_model_class(name)
    of_tensors = {
        "set_vocab": made_up_vocabulary,
        "model_arch": cls.model_arch,
        "index_tensors": lambda self, **_: cls.index_tensors(self) | listed(self, weights),
        "no_mtp": True,
    }
    stated = {"hparams": dict(config)} if config["model_type"] in AS_STATED else {}
    written = type(cls.__name__, (cls,), of_tensors)(folder, of_file, file, **stated)
    written.prepare_tensors()
    written.prepare_metadata(vocab_only=False)
    writer = written.gguf_writer
    writer.write_header_to_file(path=file)
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.write_padding(writer.fout[0], writer.fout[0].tell())
    data = sum(writer.ggml_pad(each.nbytes, writer.data_alignment) for each in writer.tensors[0].values())
    end = writer.fout[0].tell() + data
    writer.fout[0].truncate(end)
    writer.close()


def listed(model: Any, weights: dict[str, tuple[int, ...]]) -> dict[str, Callable[[], Any]]:
    """What the converter reads of a checkpoint: a tensor without data for each name that it takes."""
    from conversion.base import LazyTorchTensor

    def lazy(name: str, shape: tuple[int, ...]) -> Callable[[], Any]:
        dtype = torch.uint8 if name.endswith(("_blocks", "_scales")) else torch.bfloat16
        meta = LazyTorchTensor.meta_with_dtype_and_shape(dtype, shape)
        return lambda: LazyTorchTensor(meta=meta, func=lambda: made_up(name, shape, dtype))

    kept = (model.filter_tensors((name, lazy(name, shape))) for name, shape in weights.items())
    return dict(each for each in kept if each)


def made_up(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """What a converter sees that looks at values: one number a tensor, so that two tables differ."""
    if math.prod(shape) > MOST_MADE:
        raise ValueError(f"the converter asks for the values of a tensor of {shape}")
    return torch.full(shape, 1 + zlib.crc32(name.encode()) % 100, dtype=dtype)


def made_up_vocabulary(model: Any) -> None:
    """In place of a tokenizer's files: as many tokens as the config states."""
    model.gguf_writer.add_tokenizer_model("no_vocab")
    model.gguf_writer.add_vocab_size(model.hparams["vocab_size"])
