"""Recomputation: blocks under torch.utils.checkpoint, four passes for each step of the optimizer."""

import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            [
                nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32))
                for _ in range(3)
            ]
        )
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=False)
        return self.out(x)


torch.manual_seed(0)
model = Deep()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
for i in range(4 * STEPS):
    x = torch.randn(16, 32)
    loss = (model(x) - x.sum(-1, keepdim=True)).square().mean() / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        print(i, f"{loss.item():.4f}")
