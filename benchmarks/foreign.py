"""Modules by others, run as anybody's: parameters, FLOPs beside torch's counter, peaks beside a real step.

usage: python benchmarks/foreign.py [--install FOLDER] [NAME ...]

With --install, make a virtual environment of its own in FOLDER, with torch and what fits it from PyPI
(some 5 GB), and run there. For each module it prints a line of CSV:

- params: "equal" to the sum over `parameters()`, or the difference
- flops: `executed_flops` of a forward; torch: FlopCounterMode on meta, empty where the module does not run
  there; missed: operations that torch's counter has no formula for
- forward_peak, train_peak: bytes of a pass without values; real_*: live storages of the same pass on this CPU

foreign_modules.csv beside it is its output, of torch 2.14.1, torchvision 0.29.1, timm 1.0.31, diffusers
0.42.1, peft 0.21.2 and transformers 5.24.0.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import venv
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode, flop_registry

import archcli
from archcli.wings.running.runtime.memory.peak import LiveStorages
from archcli.wings.running.runtime.memory.storages import address, tensors_in
from archcli.wings.running.runtime.own.formulas import OURS
from archcli.wings.running.runtime.own.run import loss_of

PACKAGES = ("torchvision", "timm", "diffusers", "peft", "transformers", "pyyaml", "typer", "rich")
FIELDS = (
    *("package", "module", "params", "flops", "torch", "missed"),
    *("forward_peak", "real_forward_peak", "train_peak", "real_train_peak", "note"),
)


def main() -> None:
    """Print the table of 36 modules."""
    print_table(__file__, __doc__, FIELDS, MODULES, line)


def print_table(
    script: str,
    about: str,
    fields: Sequence[str],
    makers: Mapping[str, Any],
    line_of: Callable[[str, Any], Mapping[str, Any]],
) -> None:
    """Print a line of CSV for each module of a script, here or in an environment of its own."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--install", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if options.install:
        run_in(options.install, script, options.names)
        return
    warnings.simplefilter("ignore")
    table = csv.DictWriter(sys.stdout, fields)
    table.writeheader()
    for name, make in makers.items():
        if not options.names or name in options.names:
            table.writerow(line_of(name, make))
            sys.stdout.flush()


def run_in(folder: Path, script: str, names: list[str]) -> None:
    """Make the environment, if it is not there yet, and run in it."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    root = Path(__file__).parents[1]
    subprocess.run([python, script, *names], check=True, env={"PYTHONPATH": str(root)})


Maker = Callable[[], tuple[Any, Any]]
IDS = torch.zeros(1, 16, dtype=torch.int64)
SEQUENCES = (torch.randn(10, 2, 32), torch.randn(9, 2, 32))
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER = {**SMALL, "num_key_value_heads": 2, "vocab_size": 96}
EXPERTS = {**DECODER, "num_local_experts": 4, "num_experts_per_tok": 2}
VISION = {**SMALL, "image_size": 32, "patch_size": 8}
SWIN = {"embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "image_size": 64, "window_size": 4}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 96}
T5 = {"d_model": 64, "num_layers": 2, "num_heads": 4, "d_ff": 128, "d_kv": 16, "vocab_size": 96}
WHISPER = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "vocab_size": 96,
    "pad_token_id": 0,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "decoder_start_token_id": 1,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def vision(name: str, batch: int = 2, **options: Any) -> Maker:
    """A model of torchvision on pictures of 64 x 64."""

    def make() -> tuple[Any, Any]:
        import torchvision

        model = getattr(torchvision.models, name)(weights=None, **options)
        return model, (torch.randn(batch, 3, 64, 64),)

    return make


def timm_model(name: str, size: int = 64) -> Maker:
    """A model of timm."""

    def make() -> tuple[Any, Any]:
        import timm

        return timm.create_model(name, pretrained=False), (torch.randn(2, 3, size, size),)

    return make


def hugging(model: str, config: str, options: dict[str, Any], **inputs: Any) -> Maker:
    """A class of transformers with a config; its inputs are ids unless others are stated."""

    def make() -> tuple[Any, Any]:
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(**options)), inputs or {
            "input_ids": IDS
        }

    return make


def adapted(model: str, config: str, options: dict[str, Any], names: list[str]) -> Maker:
    """The same with adapters of peft on the named modules, which alone train."""

    def make() -> tuple[Any, Any]:
        import peft

        base, inputs = hugging(model, config, options)()
        return peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=names)), inputs

    return make


def unet() -> tuple[Any, Any]:
    """A U-Net with attention to a text."""
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=16,
        cross_attention_dim=32,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(32, 64),
        layers_per_block=1,
        norm_num_groups=8,
    )
    states = torch.randn(1, 7, 32)
    return model, {"sample": torch.randn(1, 4, 16, 16), "timestep": 3, "encoder_hidden_states": states}


def autoencoder() -> tuple[Any, Any]:
    """An autoencoder of pictures."""
    from diffusers import AutoencoderKL

    return AutoencoderKL(block_out_channels=(32,), norm_num_groups=8), (torch.randn(1, 3, 32, 32),)


def dit() -> tuple[Any, Any]:
    """A diffusion transformer."""
    from diffusers import DiTTransformer2DModel

    sizes = {"num_attention_heads": 4, "attention_head_dim": 16, "num_layers": 2, "patch_size": 2}
    inputs = {"timestep": torch.tensor([3]), "class_labels": torch.tensor([1])}
    return DiTTransformer2DModel(sample_size=16, **sizes), {
        "hidden_states": torch.randn(1, 4, 16, 16),
        **inputs,
    }


MODULES: dict[str, Maker] = {
    **{
        f"torchvision:{name}": vision(name)
        for name in (
            "resnet18",
            "mobilenet_v3_small",
            "efficientnet_b0",
            "densenet121",
            "swin_t",
            "convnext_tiny",
        )
    },
    "torchvision:vit_b_16": vision("vit_b_16", 1, image_size=64),
    **{f"timm:{name}": timm_model(name) for name in ("regnety_002", "resnest14d")},
    **{
        f"timm:{name}": timm_model(name, 224)
        for name in ("vit_tiny_patch16_224", "mixer_s32_224", "deit_tiny_patch16_224")
    },
    "transformers:GPT2LMHeadModel": hugging("GPT2LMHeadModel", "GPT2Config", GPT2),
    "transformers:LlamaForCausalLM": hugging("LlamaForCausalLM", "LlamaConfig", DECODER),
    "transformers:BertModel": hugging("BertModel", "BertConfig", {**SMALL, "vocab_size": 96}),
    "transformers:MixtralForCausalLM": hugging("MixtralForCausalLM", "MixtralConfig", EXPERTS),
    "transformers:GptOssForCausalLM": hugging(
        "GptOssForCausalLM", "GptOssConfig", {**EXPERTS, "head_dim": 16}
    ),
    "transformers:MambaForCausalLM": hugging(
        "MambaForCausalLM", "MambaConfig", {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 96}
    ),
    "transformers:T5ForConditionalGeneration": hugging(
        "T5ForConditionalGeneration", "T5Config", T5, input_ids=IDS, decoder_input_ids=IDS
    ),
    "transformers:ViTModel": hugging("ViTModel", "ViTConfig", VISION, pixel_values=torch.randn(1, 3, 32, 32)),
    "transformers:SwinModel": hugging(
        "SwinModel", "SwinConfig", SWIN, pixel_values=torch.randn(1, 3, 64, 64)
    ),
    "transformers:Dinov2Model": hugging(
        "Dinov2Model", "Dinov2Config", VISION, pixel_values=torch.randn(1, 3, 32, 32)
    ),
    "transformers:Wav2Vec2Model": hugging(
        "Wav2Vec2Model", "Wav2Vec2Config", {**SMALL, "layerdrop": 0.0}, input_values=torch.randn(1, 4000)
    ),
    "transformers:WhisperModel": hugging(
        "WhisperModel",
        "WhisperConfig",
        WHISPER,
        input_features=torch.randn(1, 80, 3000),
        decoder_input_ids=IDS,
    ),
    "diffusers:UNet2DConditionModel": unet,
    "diffusers:AutoencoderKL": autoencoder,
    "diffusers:DiTTransformer2DModel": dit,
    "peft:LoRA of Llama": adapted("LlamaForCausalLM", "LlamaConfig", DECODER, ["q_proj", "v_proj"]),
    "peft:LoRA of BERT": adapted("BertModel", "BertConfig", {**SMALL, "vocab_size": 96}, ["query", "value"]),
    "torch:Transformer": lambda: (nn.Transformer(32, 4, 2, 2, 64), SEQUENCES),
    "torch:TransformerEncoderLayer": lambda: (nn.TransformerEncoderLayer(32, 4, 64), SEQUENCES[:1]),
    "torch:MultiheadAttention": lambda: (nn.MultiheadAttention(32, 4), (SEQUENCES[0],) * 3),
    "torch:LSTM": lambda: (nn.LSTM(32, 64, 2), SEQUENCES[:1]),
    "torch:LSTM both ways": lambda: (nn.LSTM(32, 64, bidirectional=True), SEQUENCES[:1]),
    "torch:GRU": lambda: (nn.GRU(32, 64, 2), SEQUENCES[:1]),
    "torch:Bilinear": lambda: (nn.Bilinear(8, 9, 10), (torch.randn(3, 8), torch.randn(3, 9))),
}
"""Makers of (module, inputs) by `package:name`."""


def line(name: str, make: Callable[[], tuple[Any, Any]]) -> dict[str, Any]:
    """The line of one module; what fails is its note."""
    package, _, called = name.partition(":")
    record: dict[str, Any] = {"package": package, "module": called, "note": ""}
    try:
        torch.manual_seed(0)
        module, inputs = make()
        params = archcli.count_params(module, inputs).totals["params"]
        exact = sum(weight.numel() for weight in module.parameters())
        record["params"] = "equal" if params == exact else params - exact
        record["flops"] = archcli.count_flops(module, inputs).totals["executed_flops"]
        record["forward_peak"], record["real_forward_peak"] = peaks(module, inputs, "forward")
        record["train_peak"], record["real_train_peak"] = peaks(module, inputs, "train")
        record["torch"], record["missed"] = torchs_count(module, inputs)
    except Exception as error:  # noqa: BLE001 - the table lists whatever fails
        record["note"] = f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
    return record


def peaks(module: Any, inputs: Any, phase: str) -> tuple[int, int]:
    """(peak without values, live storages of a real pass), weights and inputs included."""
    ours = archcli.count_memory(module, inputs, phase=phase).totals["peak_bytes"]
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    there = [*module.parameters(), *module.buffers(), *tensors_in(inputs)]
    held = {address(x): x.untyped_storage().nbytes() for x in there}
    module.train(phase == "train")
    module.zero_grad()
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.set_grad_enabled(phase == "train"), LiveStorages(there) as live:
        out = module(*args, **kwargs)
        if phase == "train":
            loss = loss_of(out)
            del out
            loss.backward()
    module.zero_grad()
    return ours, live.peak.bytes + sum(held.values())


def torchs_count(module: Any, inputs: Any) -> tuple[int | str, str]:
    """(FLOPs by FlopCounterMode on meta, operations that it has no formula for)."""
    missed = set()

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            packet = func.overloadpacket
            if packet.__name__ in OURS and packet not in flop_registry:
                missed.add(packet.__name__)
            return func(*args, **(kwargs or {}))

    module = module.eval().to("meta")
    given = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    args, kwargs = tree_map_only(torch.Tensor, lambda x: x.to("meta"), given)
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter, Names():
            module(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - several of transformers' models do not run on meta
        return "", f"does not run on meta: {type(error).__name__}"
    return counter.get_total_flops(), " ".join(sorted(missed))


if __name__ == "__main__":
    main()
