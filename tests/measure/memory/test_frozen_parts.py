"""Training with frozen parts: bytes of transformers' own modules under requires_grad_(False), and torch's."""

from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch

import archcli
from archcli.errors import ArchError
from archcli.wings.running.runtime.memory.models import WitnessSetting
from archcli.wings.serving.api.programs.trainer import trainer_named
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.training.step import training_step
from peaks_compared import training_peaks
from table import every_row

ROOT = Path(__file__).parents[3]
BATCH, TOKENS, HEAD = 2, 96, 16
BYTES = {"bf16": 2, "fp32": 4}
THEIRS = {"final_norm": "model.norm", "embedding": "model.embed_tokens", "lm_head": "lm_head"}
"""What transformers calls the modules that lora.trained names."""


def frozen(names):
    """Overrides that train these modules alone."""
    return ["lora.targets=[]", f"lora.trained=[{','.join(names)}]"]


@pytest.fixture(scope="module")
def peaks():
    """The benchmark that books storages of steps of transformers' modules."""
    spec = spec_from_file_location("trainer_peaks", ROOT / "benchmarks" / "trainer_peaks.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STEPS = [
    (family, names, dtype, recompute)
    for family, names in [
        ("llama", ("layers.2", "final_norm")),
        ("llama", ("layers.1.mlp.down_proj",)),
        ("qwen3", ("layers.1",)),
        ("mistral", ("layers.0",)),
        ("gemma", ("embedding",)),
    ]
    for dtype in BYTES
    for recompute in ("none", "layer")
    if not (family == "qwen3" and (dtype, recompute) == ("fp32", "layer"))  # 768 bytes, as in full training
]


@pytest.mark.long
@pytest.mark.sample(3)
@pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend
@pytest.mark.parametrize(("family", "names", "dtype", "recompute"), STEPS)
def test_a_step_of_transformers_with_frozen_parts_is_equal_to_the_byte(
    family, names, dtype, recompute, peaks
):
    path = peaks.FAMILIES / f"{family}.json"
    model = peaks.trained(torch, path, "full", dtype, recompute=recompute == "layer")
    prefixes = tuple(f"{THEIRS.get(name, f'model.{name}')}." for name in names)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith(prefixes))
    _, passes, update = peaks.peaks(torch, model, "", 1)
    ours = [name.replace("mlp", "ffn") for name in names]
    sizes = {"phase": "train", "batch_size": BATCH, "seq_len": TOKENS, "backend": "cpu"}
    trainer = replace(trainer_named("peft"), outputs="")
    settings = MemorySettings(
        **sizes, optimizer="adamw", trainer=trainer, dtype=dtype, recompute=recompute, grad_accum=1
    )
    step = training_step(*settings.stored(archcli.load(path, overrides=frozen(ours))))
    # its rotary tables are as wide as a head, and frequencies and scales of its classes are buffers
    beside = step.held.optimizer.host + sum(buffer.nbytes for buffer in model.buffers())
    tables = TOKENS * HEAD * BYTES[dtype]
    of_passes = [moment.bytes for moment in step.moments if moment.stage in {"forward", "loss", "backward"}]
    of_update = [moment.bytes for moment in step.moments if moment.stage == "optimizer step"]
    assert passes == max(of_passes) + beside + tables
    assert update == max(of_update) + beside


@pytest.mark.long
@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "n_layers", "names", "vocab_size"),
    [
        (name, n_layers, names, vocab_size)
        for name, n_layers, names in [
            ("llama-3.2-1b", 5, ("layers.2.attention", "layers.4.ffn.down_proj")),
            ("llama-3.2-1b", 5, ("embedding",)),
            ("qwen3-8b", 3, ("lm_head", "final_norm", "layers.2")),
            ("mistral-7b-v0.1", 3, ("lm_head",)),
            ("gpt2", 4, ("layers.1",)),
            ("olmo-2-1b", 4, ("layers.0",)),
        ]
        for vocab_size in (512, 50_304)
    ],
)
def test_torchs_peak_with_frozen_parts(name, n_layers, names, vocab_size):
    changes = [f"n_layers={n_layers}", f"vocab_size={vocab_size}", *frozen(names)]
    model = archcli.load(name, overrides=changes)
    ours, theirs = training_peaks(model, 2, 200, WitnessSetting(backend="cpu"))
    assert ours == theirs
    of_gpus = training_peaks(model, 2, 200, WitnessSetting())
    assert abs(of_gpus[0] - of_gpus[1]) <= 64


def test_a_frozen_prefix_keeps_nothing_and_has_no_backward():
    """Of Llama 3.2 1B the last layer: 60,821,504 weights; nothing is kept of the 15 layers below it."""
    d, kv, ff = 2048, 512, 8192
    of_layer = 2 * d * d + 2 * d * kv + 3 * d * ff + 2 * d
    model = archcli.load("llama-3.2-1b", overrides=frozen(["layers.15"]))
    assert archcli.params(model).totals["trainable_params"] == of_layer == 60_821_504
    totals = archcli.count_memory(model, "train", seq_len=512).totals
    # AdamW with a master copy: 12 bytes of each, and a step of each of its 9 tensors
    assert totals["parts"]["optimizer"] == 12 * of_layer + 4 * 9
    short = archcli.load("llama-3.2-1b", overrides=["n_layers=1", *frozen(["layers.0"])])
    kept = archcli.count_memory(short, "train", seq_len=512).totals["parts"]["kept"]
    assert totals["parts"]["kept"] == kept


@every_row("name", ["layers.16", "lm_head", "banana"])
def test_what_has_no_weights_cannot_be_trained(name):
    with pytest.raises(ArchError, match=f"no weights of this model lie in '{name}'"):
        archcli.load("llama-3.2-1b", overrides=frozen([name]))


def test_a_method_trains_the_head_or_what_is_named():
    head = archcli.count_memory("qwen3-8b", "train", method="frozen", seq_len=64).totals["parts"]
    assert head["optimizer"] == 12 * 151_936 * 4096 + 4
    assert head["kept"] < 4 * 64 * 4096
    named = archcli.load("qwen3-8b", overrides=["lora.trained=[final_norm]"])
    norm = archcli.count_memory(named, "train", method="frozen", seq_len=64).totals["parts"]
    assert norm["optimizer"] == 12 * 4096 + 4
    with pytest.raises(ArchError, match="no weights of this model lie in 'lm_head'"):
        archcli.count_memory("llama-3.2-1b", "train", method="frozen")


def test_trainers_that_were_not_compared_are_refused():
    model = archcli.load("llama-3.2-1b", overrides=frozen(["layers.15"]))
    with pytest.raises(ArchError, match="LitGPT has no method frozen"):
        archcli.count_memory(model, "train", trainer="litgpt")
    assert archcli.count_memory(model, "train", trainer="transformers", seq_len=64).totals["peak_bytes"] > 0
