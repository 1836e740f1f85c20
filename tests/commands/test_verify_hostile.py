"""`archcli verify --weights` on folders that want code run, kernels fetched or other files read."""

import json
import os
import pickle
import socket

import pytest
import transformers

from archcli.wings.running.runtime.weights.transformers import CLOSED, transformers_class, without_loaders
from parity.families import FAMILIES

KERNEL = "evil/kernel"
HOSTILE = {
    "attn_implementation": KERNEL,
    "_attn_implementation": KERNEL,
    "_attn_implementation_internal": KERNEL,
    "experts_implementation": KERNEL,
    "auto_map": {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"},
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": []},
    "fusion_config": {"evil": True},
    "kernel_config": {"kernels": {"RMSNorm": KERNEL}},
    "use_kernels": True,
    "transformers_weights": "../evil.safetensors",
    "configuration_files": ["config.5.0.0.json"],
    "name_or_path": KERNEL,
}


class Evil:
    """Unpickled, it runs code."""

    def __reduce__(self):
        return pytest.fail, ("a pickle of the folder was read",)


@pytest.fixture
def closed(monkeypatch):
    """No connection is made, no kernel asked for."""

    def refuse(*_, **__):
        pytest.fail("it asked for something of the net")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(transformers.integrations.hub_kernels, "get_kernel", refuse)
    monkeypatch.setattr(transformers.integrations.hub_kernels, "load_and_register_attn_kernel", refuse)
    monkeypatch.setattr(transformers.dynamic_module_utils, "get_class_from_dynamic_module", refuse)


@pytest.fixture
def hostile(folder):
    """hostile("llama"): the model's folder with every such file beside it, and its config.json."""

    def planted(name):
        path = folder(name)
        for evil in ("evil.py", "modeling_evil.py", "custom_generate/generate.py"):
            (path / evil).parent.mkdir(exist_ok=True)
            (path / evil).write_text("raise SystemExit('code of the folder ran')\n")
        for data in ("pytorch_model.bin", ".metadata", "adapter_model.bin"):
            (path / data).write_bytes(pickle.dumps(Evil()))
        for text in ("adapter_config.json", "generation_config.json", "config.5.0.0.json"):
            (path / text).write_text('{"base_model_name_or_path": "evil/base", "model_type": "evil"}')
        (path / "shard-00001-model-00001-of-00001.safetensors").write_bytes(b"no tensors")
        return path

    return planted


@pytest.mark.usefixtures("closed")
@pytest.mark.sample(1)
@pytest.mark.parametrize("key", HOSTILE)
def test_no_key_of_a_config_finds_code_or_files(key, hostile, cli):
    path = hostile("llama")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, key: HOSTILE[key]}))
    done = cli("verify", path, "--weights", path, "-s", "9")
    assert (done.code, done.err) == (0, "")


@pytest.mark.long
@pytest.mark.usefixtures("closed")
def test_no_key_of_a_nested_config_does(hostile, cli, tmp_path):
    text = {key: value for key, value in FAMILIES["gemma3"].config.items() if key != "model_type"}
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = {**sizes, "image_size": 28, "patch_size": 14}
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=1)
    transformers.Gemma3ForConditionalGeneration(config).save_pretrained(tmp_path / "both")
    file = tmp_path / "both" / "config.json"
    nested = json.loads(file.read_text())
    for part in (nested, nested["text_config"], nested["vision_config"]):
        part.update(HOSTILE)
    file.write_text(json.dumps(nested))
    done = cli("verify", tmp_path / "both", "--weights", tmp_path / "both", "-s", "9")
    assert (done.code, done.err) == (0, "")


def test_their_library_is_told_to_stay_offline(monkeypatch):
    for name in CLOSED:
        monkeypatch.setenv(name, "0")
    transformers_class({"architectures": ["LlamaForCausalLM"]})
    assert {name: os.environ[name] for name in CLOSED} == CLOSED


def test_infinity_is_a_number():
    asked = {"limit": [0.0, {"__float__": "Infinity"}], "inner": [{"_attn_implementation": KERNEL, "a": 1}]}
    assert without_loaders(asked) == {"limit": [0.0, float("inf")], "inner": [{"a": 1}]}
