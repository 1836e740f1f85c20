"""Peaks of a step of tiny models that SFTTrainer of TRL trains, by the storages that it makes on a CPU.

usage: python benchmarks/trl_peaks.py > benchmarks/measured/trl_steps.csv

In the environment of trainer_peaks.py, with trl 1.16 and datasets. Logits are made in tiles of WORDS words:
on a CPU torch's operations take several tensors of a tile's size, where a GPU has one kernel.
"""

import csv
import json
import sys
import tempfile

from trainer_peaks import BATCH, FAMILIES, RANK, STEPS, TOKENS, TYPES, held_by, packed, storages_of

FIELDS = ("family", "method", "dtype", "recompute", "words", "weights", "peak", "optimizer_step")
CASES = (("full", "fp32"), ("full", "bf16"), ("lora", "fp32"), ("lora", "bf16"), ("qlora", "bf16"))
WORDS, VOCABULARY = 2, 512


def tokenizer():
    """A tokenizer with a word for each token."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    unknown = {"unk_token": "t0"}
    model = models.WordLevel({f"t{i}": i for i in range(VOCABULARY)}, **unknown)
    special = {"eos_token": "t1", "pad_token": "t2"}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model), **special)


def noting(live, peaks):
    """A callback that notes the peaks of the last step."""
    from transformers import TrainerCallback

    class Noted(TrainerCallback):
        def on_step_begin(self, *_, **__):
            live.peak = live.now

        def on_pre_optimizer_step(self, *_, **__):
            peaks["passes"], live.peak = live.peak, live.now

        def on_step_end(self, *_, **__):
            peaks["step"] = live.peak

    return Noted()


def trained(torch, family, method, dtype, *, recompute):
    """The trainer of a model, a tracker of storages, and the peaks that it will have noted."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoConfig, AutoModelForCausalLM
    from trl import SFTConfig, SFTTrainer

    config = AutoConfig.for_model(**json.loads((FAMILIES / f"{family}.json").read_text(encoding="utf-8")))
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, TYPES[dtype]))
    adapters = LoraConfig(r=RANK, target_modules="all-linear", task_type="CAUSAL_LM")
    ids = [torch.randint(0, VOCABULARY, (TOKENS,)).tolist() for _ in range(BATCH * STEPS)]
    live, peaks = storages_of(torch), {}
    sizes = {"per_device_train_batch_size": BATCH, "max_steps": STEPS, "max_length": TOKENS}
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "dataloader_pin_memory": False}
    trainer = SFTTrainer(
        packed(torch, model) if method == "qlora" else model,
        args=SFTConfig(tempfile.mkdtemp(), use_cpu=True, gradient_checkpointing=recompute, **sizes, **quiet),
        train_dataset=Dataset.from_dict({"input_ids": ids}),
        processing_class=tokenizer(),
        peft_config=None if method == "full" else adapters,
        callbacks=[noting(live, peaks)],
    )
    return trainer, live, peaks


def main():
    """Print the table."""
    import torch
    import trl.trainer.utils

    vars(trl.trainer.utils)["_CHUNKED_LOGPROB_CHUNK_SIZE"] = WORDS
    asked_of = torch.is_autocast_enabled
    torch.is_autocast_enabled = lambda *device: asked_of(*(device or ("cpu",)))
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(FIELDS)
    for family in ("llama", "qwen2"):
        for method, dtype in CASES:
            for recompute in ("none", "layer"):
                trainer, live, peaks = trained(torch, family, method, dtype, recompute=recompute == "layer")
                weights = held_by(torch, trainer.model, live)
                with live:
                    trainer.train()
                lines.writerow(
                    (family, method, dtype, recompute, WORDS, weights, peaks["passes"], peaks["step"])
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
