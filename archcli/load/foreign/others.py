"""Recognize files of other programs, and refuse each in one line that names it.

Nothing here opens a pickle or an archive: those are told by the ending of their name.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from archcli.errors import NoModelError, Problem
from archcli.load.yaml.nodes import Node

PICKLE = "it may be a pickle, which runs code as it is opened, and so is not read"
BESIDE = "give the config.json beside it"
ENDINGS = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle", ".pdparams"), PICKLE),
    ".onnx": "an ONNX graph, which is not read",
    ".h5": "weights in HDF5, as Keras writes them, which are not read",
    ".hdf5": "weights in HDF5, as Keras writes them, which are not read",
    ".keras": "a model of Keras, which is not read",
    ".nemo": "an archive of NeMo, which is not read",
    ".toml": "a TOML, as torchtitan's settings are, which is not read",
    ".pte": "a program of ExecuTorch, which is not read",
    ".tflite": "a graph of TensorFlow Lite, which is not read",
    ".mlmodel": "a model of Core ML, which is not read",
    ".engine": "an engine of TensorRT, which is not read",
    ".msgpack": "weights of Flax, which are not read",
    ".npz": "arrays of NumPy, which are not read",
}
"""What a file is, by the ending of its name."""


class OtherFile(NamedTuple):
    """A kind of file that is no model: its description and its keys; `a.b` is key b of object a."""

    what: str
    keys: tuple[str, ...]


OTHERS = (
    OtherFile("genai_config.json of ONNX Runtime, on how a graph is run", ("model.decoder", "search")),
    OtherFile("a model of Keras", ("class_name", "config")),
    OtherFile("settings of TensorRT-LLM's builder", ("pretrained_config", "build_config")),
    OtherFile("litgpt's settings of a model", ("n_embd", "n_layer", "mlp_class_name")),
    OtherFile("litgpt's settings of a model", ("n_embd", "n_layer", "padded_vocab_size")),
    OtherFile("litgpt's settings of a model", ("n_embd", "n_layer", "hf_config")),
    OtherFile("OLMo's settings of a training run", ("model.d_model", "model.mlp_ratio")),
    OtherFile("OLMo's settings of a training run", ("model.d_model", "optimizer", "run_name")),
    OtherFile("OLMo-core's settings of a training run", ("model._CLASS_",)),
    OtherFile("nanotron's settings of a training run", ("model.model_config", "parallelism")),
    OtherFile("nanotron's settings of a training run", ("model.model_config", "general")),
    OtherFile("NeMo's settings of a model", ("model.num_layers", "model.hidden_size")),
    OtherFile("NeMo's settings of a model", ("trainer", "exp_manager")),
    OtherFile("NeMo's settings of a model", ("num_layers", "hidden_size", "ffn_hidden_size")),
    OtherFile("NeMo's settings of a model", ("tensor_model_parallel_size", "hidden_size")),
    OtherFile("Megatron-LM's settings of a training run", ("language_model", "model_parallel")),
    OtherFile("Megatron-LM's settings of a training run", ("num-layers", "hidden-size")),
    OtherFile("Megatron-LM's settings of a training run", ("MODEL_ARGS",)),
    OtherFile("GPT-NeoX's settings of a training run", ("num_layers", "hidden_size", "pipe_parallel_size")),
    OtherFile("GPT-NeoX's settings of a training run", ("num_layers", "hidden_size", "pos_emb")),
    OtherFile("torchtune's settings of a training run", ("model._component_",)),
    OtherFile("torchtitan's settings of a training run", ("model.flavor",)),
    OtherFile("LLaMA-Factory's settings of a training run", ("model_name_or_path", "finetuning_type")),
    OtherFile("axolotl's settings of a training run", ("base_model", "datasets")),
    OtherFile("MaxText's settings of a training run", ("base_emb_dim",)),
    OtherFile("llm-foundry's settings of a training run", ("model.init_device",)),
    OtherFile("Hydra's settings of a run, as NeMo and Megatron-Bridge have them", ("model._target_",)),
    OtherFile("mergekit's recipe of a merge", ("merge_method",)),
    OtherFile("DeepSpeed's settings of a training run", ("zero_optimization",)),
    OtherFile("a tokenizer", ("added_tokens", "model.type")),
    OtherFile("an index of shards that are pickles", ("weight_map",)),
)
"""Files that people have beside an architecture; each is told by keys that no file of archcli has."""


def refuse_by_ending(path: Path) -> None:
    """Raise NoModelError for a file whose name ends as another program's files do."""
    about = ENDINGS.get(path.suffix.lower())
    if about is not None:
        raise NoModelError(Problem(about, BESIDE, path=str(path)))


def refuse_by_keys(keys: Collection[str], file: str) -> None:
    """Raise NoModelError for the keys of another program's file; those of inner objects as `outer.inner`."""
    for kind in OTHERS:
        if all(key in keys for key in kind.keys):
            hint = "an architecture has groups of layers; a config.json of the same model can be read"
            raise NoModelError(Problem(f"no architecture but {kind.what}", hint, path=file))


def refuse_json(text: str, file: str) -> None:
    """`refuse_by_keys` of a text that is a JSON object; of any other nothing."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(data, dict):
        inner = [f"{outer}.{key}" for outer, held in data.items() if isinstance(held, dict) for key in held]
        refuse_by_keys({*data, *inner}, file)


def refuse_yaml(root: Node, file: str) -> None:
    """`refuse_by_keys` of a parsed YAML."""
    if isinstance(root.value, dict):
        held = ((key, node.value) for key, node in root.value.items())
        inner = [f"{outer}.{key}" for outer, value in held if isinstance(value, dict) for key in value]
        refuse_by_keys({*map(str, root.value), *inner}, file)


BESIDE_CONFIG = {
    "generation_config.json": "how a model generates",
    "hf_quant_config.json": "how weights are quantized",
    "quantize_config.json": "how weights are quantized",
    "preprocessor_config.json": "how images or sounds are prepared",
    "processor_config.json": "how inputs are prepared",
    "tokenizer_config.json": "a tokenizer",
    "tokenizer.json": "a tokenizer",
    "special_tokens_map.json": "a tokenizer",
    "config_sentence_transformers.json": "the versions of sentence-transformers",
}
"""Files that stand beside a config.json, and what they describe."""


def refuse_beside(path: Path) -> None:
    """Raise NoModelError for a file that stands beside a config.json."""
    about = BESIDE_CONFIG.get(path.name)
    if about is not None:
        what = f"this file describes {about}, not an architecture"
        raise NoModelError(Problem(what, "give the config.json beside it", path=str(path)))
