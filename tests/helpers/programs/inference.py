"""No optimizer: a model that answers requests."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).eval()
with torch.inference_mode():
    for i in range(14):
        print(i, f"{model(torch.randn(32, 64)).sum().item():.3f}")
