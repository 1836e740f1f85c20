"""A script for torchrun: DistributedDataParallel over gloo, a sampler, the first rank prints."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
data = TensorDataset(torch.randn(8 * STEPS * world, 32), torch.randint(0, 4, (8 * STEPS * world,)))
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False))
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if rank == 0:
        sys.stdout.write(f"{step}: {loss.item():.4f}\n")
dist.destroy_process_group()
sys.stdout.write(f"rank {os.environ['RANK']} is done\n")  # whole lines, as ranks share the output
