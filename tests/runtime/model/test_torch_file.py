"""A file of plain PyTorch has the parameters of the built model, by name, and computes what it computes."""

import re
import subprocess
import sys
from types import ModuleType

import pytest
import torch

import archcli
from archcli.errors import ArchError
from archcli.graph import Op
from archcli.modules import Decoder, Request
from archcli.modules.spec.base import substitute
from archcli.ops import Activate
from archcli.wings.running.runtime.model.random_data import random_input
from archcli.wings.shapes.export.plain.file import torch_file
from narrow_presets import narrowed

KINDS = (
    "llama-3.1-8b",
    "qwen3-0.6b",
    "gpt2",
    "gemma-2-2b",
    "gemma-3-1b",
    "gemma-3n-e2b",
    "gemma-4-e2b",
    "opt-125m",
    "bloom-560m",
    "mpt-7b",
    "gpt-j-6b",
    "command-r7b",
    "mistral-7b-v0.1",
    "olmo-2-1b",
    "bitnet-b1.58-2b-4t",
    "mixtral-8x7b",
    "qwen3-30b-a3b",
    "gpt-oss-20b",
    "llama-4-scout",
    "deepseek-v2-lite",
    "deepseek-v3",
    "youtu-llm-2b",
    "bert-base-uncased",
    "albert-base-v2",
    "modernbert-base",
    "longformer-base-4096",
    "t5-small",
    "bart-large",
    "whisper-small",
    "mamba-130m",
    "mamba2-2.7b",
    "rwkv-4-169m",
    "retnet-6.7b",
    "recurrentgemma-2b",
    "xlstm-7b",
    "jamba-1.5-mini",
    "falcon-h1-0.5b",
    "lfm2-350m",
    "qwen3-next-80b-a3b",
    "kimi-linear-48b-a3b",
)
"""Presets of all kinds: dense decoders, mixtures, MLA, encoders, encoder-decoders, recurrences, hybrids."""
FULL = {"llama-3.1-8b": 8_030_261_248, "gpt2": 124_439_808, "mixtral-8x7b": 46_702_792_704}
"""Parameters that the papers or the weights' owners state."""
LINES = 400
LONG = {"gemma-3n-e2b": 740, "gemma-4-e2b": 490}
"""Files of models whose layers are of six kinds and more, as some lend keys and values to others."""
TOKENS = 13


def module_of(text):
    module = ModuleType("plain")
    exec(compile(text, "plain.py", "exec"), vars(module))  # noqa: S102
    return module


def fill(model):
    """Give every weight a number of its own, so that none can stand for another."""
    generator = torch.Generator().manual_seed(0)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point():
            gain = tensor.dim() < 2 and name.endswith("weight")
            numbers = torch.randn(tensor.shape, generator=generator)
            tensor.data.copy_(numbers * (0.1 if tensor.dim() < 2 else 0.06) + gain)


def inputs_of(model):
    request = Request("forward", 2, TOKENS, source_len=11)
    generator = torch.Generator().manual_seed(1)
    return {name: random_input(x, torch.float32, generator) for name, x in model.inputs(request).items()}


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize("name", KINDS)
def test_a_file_loads_the_weights_and_gives_the_logits(name):
    model = narrowed(name)
    built, plain = archcli.build(model).eval(), module_of(torch_file(model)).Model().eval()
    fill(built)
    plain.load_state_dict(built.state_dict(), strict=True)
    read = inputs_of(model)
    with torch.no_grad():
        expected, actual = built(**read), plain(**read)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("name", KINDS)
def test_a_file_is_short_clean_and_of_torch_alone(name, tmp_path):
    text = torch_file(archcli.load(name))
    file = tmp_path / "model.py"
    file.write_text(text)
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", str(file)]
    done = subprocess.run(ruff, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout
    assert len(text.splitlines()) <= LONG.get(name, LINES)
    imports = re.findall(r"^(?:import|from) .*", text, re.MULTILINE)
    assert all(re.match(r"(import|from) torch\b", line) for line in imports)


@pytest.mark.parametrize("name", FULL)
def test_a_file_has_the_parameters_of_the_whole_model(name):
    with torch.device("meta"):
        plain = module_of(torch_file(archcli.load(name))).Model()
    assert sum(weight.numel() for weight in plain.parameters()) == FULL[name]


def test_names_and_numbers_stand_at_the_top_and_layers_in_a_loop():
    text = torch_file(archcli.load("llama-3.1-8b"))
    assert "D_MODEL = 4096\n" in text
    assert "for layer in self.layers:\n" in text
    assert "class SwiGLU(nn.Module):" in text
    assert "# [B, T, D_MODEL]" in text
    assert text.count("class DecoderLayer") == 1


def test_an_operation_without_code_is_refused_by_name(monkeypatch):
    def data_dependent(self, torch, weights, x):
        return x if x.sum().item() > 0 else -x

    monkeypatch.setattr(Activate, "run", data_dependent)
    assert issubclass(Activate, Op)
    with pytest.raises(ArchError, match=r"Activate \(activation\) cannot be written"):
        torch_file(archcli.load("llama-3.1-8b"))


def test_a_file_differs_where_the_architecture_does():
    model = archcli.load("llama-3.1-8b")
    assert isinstance(model, Decoder)
    wider = substitute(model, {"norm.eps": 0.5})
    assert "EPS = 0.5" in torch_file(wider)
