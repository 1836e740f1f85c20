"""A data set of one's own, workers that are spawned and find it in `__main__`, pinned memory left out."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13
METHOD = sys.argv[2] if len(sys.argv) > 2 else "fork"


class Squares(Dataset):
    def __len__(self):
        return 8 * STEPS

    def __getitem__(self, i):
        x = torch.full((32,), i / 100)
        return x, x.square()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(Squares(), batch_size=8, num_workers=1, multiprocessing_context=METHOD)
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(i, f"{loss.item():.5f}")


if __name__ == "__main__":
    main()
