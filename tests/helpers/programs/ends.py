"""A loop that ends in the middle, as the first argument says: exit, raise, interrupt, or fewer steps."""

import os
import signal
import sys
import time

import torch
from torch import nn

how, at = sys.argv[1], int(sys.argv[2])
model = nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print("begins", how)
print("a line on standard error", file=sys.stderr)
for step in range(20):
    if step == at and how == "exit":
        sys.exit(3)
    if step == at and how == "raise":
        raise ValueError("no more")
    if step == at and how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    if step == at and how == "end":
        break
    loss = model(torch.ones(8, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("ends")
