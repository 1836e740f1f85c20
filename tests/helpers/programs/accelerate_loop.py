"""accelerate's form: everything is prepared, passes accumulate, the accelerator calls backward and clips."""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(96, width)
        layer = nn.TransformerEncoderLayer(width, 2, 4 * width, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classifier = nn.Linear(width, 4)

    def forward(self, ids):
        return self.classifier(self.layers(self.embedding(ids)).mean(1))


def main():
    set_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, mixed_precision="bf16")
    data = TensorDataset(torch.randint(96, (16 * STEPS, 24)), torch.randint(4, (16 * STEPS,)))
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
    model, optimizer, loader, scheduler = accelerator.prepare(
        model, optimizer, DataLoader(data, batch_size=8, shuffle=True), scheduler
    )
    criterion = nn.CrossEntropyLoss()
    for step, (ids, labels) in enumerate(loader):
        with accelerator.accumulate(model):
            loss = criterion(model(ids), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        accelerator.print(f"{step}: {loss.item():.4f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
