"""Parameters of presets as training programs count them: their own classes, of what `export --to` writes.

usage: python benchmarks/trainers.py litgpt|megatron|nanogpt|torchtitan [FOLDER] [NAME ...]

Run it where the program is installed; FOLDER is a checkout of Megatron-LM or nanoGPT. It prints a line of CSV
for each preset that the program can express: its model is built on the meta device of the exported file, read
by the program's own parser. Presets of more than 3,000 experts in all are left out for LitGPT and
Megatron-LM, whose experts are modules of their own. Megatron-LM's is built without multi-token prediction.
What it builds with Transformer Engine alone is named on standard error.

trainers.csv beside it is its output: litgpt 0.5.13, torchtitan 0.3.0, Megatron-LM d98e8a64dd of August 2026,
nanoGPT 3adf61e1 of November 2025, torch 2.13.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import runpy
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from archcli.errors import ArchError
from archcli.load.presets import presets
from archcli.wings.shapes.api.export import Exported, export

MOST_EXPERTS = 3_000
FOLDERS = {"megatron", "nanogpt"}


def litgpt(_: str) -> Callable[[Exported, Path], Any]:
    """LitGPT's GPT of its Config; tied by the lines of its pretraining."""
    from litgpt import GPT, Config

    def build(exported: Exported, file: Path) -> Any:
        config = Config.from_file(file)
        if config.n_expert * config.n_layer > MOST_EXPERTS:
            return None
        model = GPT(config)
        if any("tie_embeddings" in note for note in exported.notes):
            model.transformer.wte.weight = model.lm_head.weight
        return model

    return build


def nanogpt(folder: str) -> Callable[[Exported, Path], Any]:
    """nanoGPT's GPT of the names of the file that its config has."""
    sys.path.insert(0, folder)
    from model import GPT, GPTConfig

    names = {field.name for field in dataclasses.fields(GPTConfig)}

    def build(_: Exported, file: Path) -> Any:
        settings = runpy.run_path(str(file))
        return GPT(GPTConfig(**{name: settings[name] for name in names & settings.keys()}))

    return build


def torchtitan(_: str) -> Callable[[Exported, Path], Any]:
    """torchtitan's model of the module, whose `run` its ConfigManager takes."""

    def build(_: Exported, file: Path) -> Any:
        sys.path.insert(0, str(file.parent))
        sys.modules.pop(file.stem, None)
        module = importlib.import_module(file.stem)
        return module.run().model_spec.model.build()

    return build


def _begin_rank(folder: str) -> None:
    """Make the environment of one rank, and what Megatron-LM has with a GPU or Transformer Engine alone."""
    import typing

    import typing_extensions

    vars(typing).setdefault("override", typing_extensions.override)  # Python 3.11
    sys.path.insert(0, folder)
    rank = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    os.environ.update(rank, MASTER_PORT="29611", CUDA_DEVICE_MAX_CONNECTIONS="1")
    torch.cuda.current_device = lambda: "cpu"  # where tables of YaRN are made
    attention = importlib.import_module("megatron.core.transformer.dot_product_attention").DotProductAttention
    begin = attention.__init__

    def without_widths(self: Any, *args: Any, **options: Any) -> None:
        """Without the two widths of latent attention, which the one of Transformer Engine alone takes."""
        begin(
            self, *args, **{key: it for key, it in options.items() if key not in ("k_channels", "v_channels")}
        )

    attention.__init__ = without_widths


def megatron(folder: str) -> Callable[[Exported, Path], Any]:
    """Megatron-LM's GPTModel of its arguments, on one rank without a GPU."""
    _begin_rank(folder)
    import gpt_builders
    from megatron.core import parallel_state
    from megatron.training.argument_utils import core_transformer_config_from_args
    from megatron.training.arguments import add_megatron_arguments
    from megatron.training.vocab_utils import calculate_padded_vocab_size

    gpt_builders.print_rank_0 = lambda *_: None
    torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel()
    run = "--seq-length 8 --micro-batch-size 1 --transformer-impl local --use-cpu-initialization"
    fusions = ("rope", "gradient-accumulation", "masked-softmax", "bias-dropout")
    plain = [*run.split(), "--no-persist-layer-norm", *(f"--no-{name}-fusion" for name in fusions)]

    def build(_: Exported, file: Path) -> Any:
        parser = argparse.ArgumentParser(allow_abbrev=False)
        add_megatron_arguments(parser)
        args = parser.parse_args([*file.read_text().split(), *plain])
        if (args.num_experts or 0) * args.num_layers > MOST_EXPERTS:
            return None
        args.mtp_num_layers = None  # its layer is of Transformer Engine, which needs a GPU
        args.params_dtype, args.rank, args.world_size = torch.float32, 0, 1
        args.padded_vocab_size = calculate_padded_vocab_size(
            args.vocab_size, args.make_vocab_size_divisible_by, 1, False
        )
        config = core_transformer_config_from_args(args)
        config.perform_initialization = False
        return gpt_builders.gpt_builder(args, True, True, config=config)

    return build


def main() -> None:
    """Print the lines of one program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trainer", choices=[it.__name__ for it in (litgpt, megatron, nanogpt, torchtitan)])
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = options.names.pop(0) if options.trainer in FOLDERS else ""
    build = globals()[options.trainer](folder)
    for name in options.names or sorted(presets()):
        try:
            exported = export(name, to=options.trainer)
        except ArchError:
            continue
        quiet = redirect_stdout(sys.stderr)
        with tempfile.TemporaryDirectory() as place, torch.device("meta"), quiet:
            try:
                model = build(exported, exported.save(Path(place) / "exported.py"))
            except (ValueError, AssertionError) as error:  # what needs Transformer Engine
                print(f"{name}: {error}")
                continue
        if model is not None:
            print(f"{options.trainer},{name},{sum(p.numel() for p in model.parameters())}", flush=True)


if __name__ == "__main__":
    main()
