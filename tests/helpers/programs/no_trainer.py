"""The form of transformers' run_clm_no_trainer.py: a class of theirs, groups of weights, a schedule."""

import sys

import torch
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel, get_scheduler, set_seed

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13
set_seed(0)
config = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=96, n_positions=32)
model = GPT2LMHeadModel(config)
loader = DataLoader([{"input_ids": torch.randint(96, (32,))} for _ in range(4 * STEPS)], batch_size=4)
no_decay = ["bias", "layer_norm.weight"]
groups = [
    {
        "params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)],
        "weight_decay": 0.1,
    },
    {
        "params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)],
        "weight_decay": 0.0,
    },
]
optimizer = torch.optim.AdamW(groups, lr=5e-4)
scheduler = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=STEPS)
model.train()
for step, batch in enumerate(loader):
    outputs = model(**batch, labels=batch["input_ids"])
    outputs.loss.backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {outputs.loss.item():.4f}")
