"""Two networks and two optimizers in turn: each step of the program is one of both."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 16), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)


torch.manual_seed(0)
generator, discriminator = Generator(), Discriminator()
of_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
of_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for step in range(STEPS):
    real, fake = torch.randn(32, 16), generator(torch.randn(32, 8))
    of_d.zero_grad()
    loss_d = criterion(discriminator(real), torch.ones(32, 1))
    loss_d = loss_d + criterion(discriminator(fake.detach()), torch.zeros(32, 1))
    loss_d.backward()
    of_d.step()
    of_g.zero_grad()
    loss_g = criterion(discriminator(fake), torch.ones(32, 1))
    loss_g.backward()
    of_g.step()
    print(step, f"{loss_d.item():.4f} {loss_g.item():.4f}")
