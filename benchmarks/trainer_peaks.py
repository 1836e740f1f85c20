"""Peaks of three steps of tiny models that transformers, peft and bitsandbytes train.

usage: python benchmarks/trainer_peaks.py --install FOLDER > benchmarks/measured/trainer_steps.csv

A virtual environment of its own in FOLDER has torch, transformers, peft and bitsandbytes of PyPI. Every
storage that a step makes on the CPU is booked until it ends. A line of CSV for each family, method, type of
the weights, checkpointing and autocast: bytes of the weights, and the peaks of passes and of the optimizer's
step. torch.is_autocast_enabled answers for the CPU as on a GPU: peft asks it without naming a device.
tests/measure/memory/test_trainers.py holds `archcli memory --trainer` to it.
"""

import argparse
import csv
import itertools
import json
import subprocess
import sys
import venv
import weakref
from pathlib import Path

PACKAGES = (
    "torch==2.13.0",
    "transformers==5.24.0",
    "peft==0.21.2",
    "bitsandbytes==0.50.2",
    "accelerate==1.15.0",
)
FAMILIES = Path(__file__).parents[1] / "tests" / "measure" / "memory" / "trained"
CASE = ("method", "dtype", "recompute", "autocast", "grad_accum")
FIELDS = ("family", *CASE, "weights", "peak", "optimizer_step")
RECOMPUTE, AUTOCAST = ("none", "layer"), ("", "bf16")
CASES = (
    *itertools.product(("full",), ("bf16", "fp32"), RECOMPUTE, AUTOCAST, (1,)),
    *itertools.product(("lora", "qlora"), ("bf16",), RECOMPUTE, AUTOCAST, (1,)),
    *itertools.product(("full",), ("bf16", "fp32"), RECOMPUTE, AUTOCAST, (2,)),
    *itertools.product(("lora",), ("bf16",), RECOMPUTE, AUTOCAST, (2,)),
    *itertools.product(("full",), ("fp32",), RECOMPUTE, ("fp16",), (1,)),
    *itertools.product(("lora", "qlora"), ("fp16",), RECOMPUTE, ("fp16",), (1,)),
    *itertools.product(("dora",), ("bf16",), RECOMPUTE, AUTOCAST, (1,)),
)
OTHERS = tuple(case for case in CASES if case[0] in {"full", "lora"} and case[3:] in {("", 1), ("bf16", 1)})
"""Cases of families whose classes have what archcli holds otherwise: fused projections, experts."""
TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
BATCH, TOKENS, RANK, STEPS = 2, 96, 8, 3


def in_environment(folder):
    """Run this script in a virtual environment with the packages."""
    python = Path(folder) / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return subprocess.run([python, __file__], check=False).returncode


def storages_of(torch):
    """A dispatch mode that books the bytes of live storages."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Live(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.sizes, self.now, self.peak = {}, 0, 0

        def book(self, tensor):
            storage = tensor.untyped_storage()
            key, size = storage.data_ptr(), storage.nbytes()
            if key not in self.sizes:
                self.sizes[key] = size
                self.now += size
                weakref.finalize(storage, self.end, key)
                self.peak = max(self.peak, self.now)

        def end(self, key):
            self.now -= self.sizes.pop(key, 0)

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            for leaf in tree_leaves(out):
                if isinstance(leaf, torch.Tensor):
                    self.book(leaf)
            return out

    return Live()


def packed(torch, model):
    """All matrices but the head in nf4 with double quantization."""
    import bitsandbytes

    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and "lm_head" not in name:
            parent, _, last = name.rpartition(".")
            options = {"compute_dtype": torch.bfloat16, "quant_type": "nf4", "compress_statistics": True}
            sizes = (module.in_features, module.out_features, module.bias is not None)
            linear = bitsandbytes.nn.Linear4bit(*sizes, **options)
            form = {"quant_type": "nf4", "compress_statistics": True}
            linear.weight = bitsandbytes.nn.Params4bit(module.weight.data, requires_grad=False, **form)
            linear.bias = module.bias
            setattr(model.get_submodule(parent), last, linear.to("cpu"))
    model.is_loaded_in_4bit = True
    return model


def trained(torch, family, method, dtype, *, recompute):
    """The model as people prepare it."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(**json.loads(family.read_text(encoding="utf-8")))
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, TYPES[dtype]))
    if method != "full":
        from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training

        if method == "qlora":
            model = prepare_model_for_kbit_training(
                packed(torch, model), use_gradient_checkpointing=recompute
            )
        sizes = {"r": RANK, "target_modules": "all-linear", "use_dora": method == "dora"}
        adapters = LoraConfig(task_type="CAUSAL_LM", **sizes)
        model = get_peft_model(model, adapters)
    if recompute and method != "qlora":
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
    return model.train()


def held_by(torch, model, live):
    """Book the weights, with the scales and tables of packed ones."""
    for tensor in (*model.parameters(), *model.buffers()):
        live.book(tensor.data)
        state = getattr(tensor, "quant_state", None)
        nested = getattr(state, "state2", None)
        parts = (state and state.absmax, state and state.code, state and state.offset)
        for part in (*parts, nested and nested.absmax, nested and nested.code):
            if isinstance(part, torch.Tensor):
                live.book(part)
    return live.now


def peaks(torch, model, autocast, grad_accum):
    """Bytes of the weights, the peak of passes of the last step, and of its optimizer's."""
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad])
    scaler = torch.amp.GradScaler("cpu", enabled=autocast == "fp16")
    dtype = getattr(torch, TYPES[autocast or "bf16"])
    ids = torch.randint(0, 512, (BATCH, TOKENS))
    live = storages_of(torch)
    weights = held_by(torch, model, live)
    for _ in range(STEPS):
        live.peak = 0
        with live:
            for _ in range(grad_accum):
                with torch.autocast("cpu", dtype, enabled=bool(autocast)):
                    loss = model(input_ids=ids, labels=ids, use_cache=False).loss
                scaler.scale(loss).backward()
                del loss
            passes, live.peak = live.peak, live.now
            scaler.step(optimizer)
            scaler.update()
            update = live.peak
            optimizer.zero_grad()
    return weights, passes, update


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", metavar="FOLDER", help="make an environment there, and run in it")
    asked = parser.parse_args()
    if asked.install:
        return in_environment(asked.install)
    import torch

    asked_of = torch.is_autocast_enabled
    torch.is_autocast_enabled = lambda *device: asked_of(*(device or ("cpu",)))
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(FIELDS)
    for family in (*sorted(FAMILIES.glob("*.json")), *sorted(FAMILIES.glob("others/*.json"))):
        for case in CASES if family.parent == FAMILIES else OTHERS:
            method, dtype, recompute, *how = case
            model = trained(torch, family, method, dtype, recompute=recompute == "layer")
            lines.writerow((family.stem, *case, *peaks(torch, model, *how)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
