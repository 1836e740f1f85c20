"""transformers' Trainer: a class of theirs, passes that accumulate, a schedule, a look at held-out texts."""

import sys
from tempfile import TemporaryDirectory

import torch
from torch.utils.data import Dataset
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13


class Texts(Dataset):
    def __init__(self, number):
        self.ids = torch.randint(96, (number, 32))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def main():
    set_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        vocab_size=96,
        max_position_embeddings=32,
    )
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            learning_rate=1e-3,
            lr_scheduler_type="cosine",
            warmup_steps=2,
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=5,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=LlamaForCausalLM(config),
            args=arguments,
            train_dataset=Texts(8 * STEPS),
            eval_dataset=Texts(8),
            data_collator=default_data_collator,
        )
        trainer.remove_callback(PrinterCallback)  # which prints seconds, too
        trainer.train()
    for entry in trainer.state.log_history:
        print(entry["step"], {name: f"{entry[name]:.4f}" for name in ("loss", "eval_loss") if name in entry})


if __name__ == "__main__":
    main()
