"""A loop with torch.profiler around some of its steps, as its documentation has it."""

import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13
FIRST = int(sys.argv[2]) if len(sys.argv) > 2 else 4
torch.manual_seed(0)
model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(step):
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.4f}")


for step in range(FIRST):
    train(step)
with profile(
    activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=2, repeat=1)
) as traced:
    for step in range(FIRST, FIRST + 3):
        train(step)
        traced.step()
print("addmm", sum(event.count for event in traced.key_averages() if event.key == "aten::addmm"))
for step in range(FIRST + 3, STEPS):
    train(step)
