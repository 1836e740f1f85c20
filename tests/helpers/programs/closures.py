"""Lightning's form: a module with training_step, a trainer whose optimizer's step calls a closure."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13


class LitAutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 48))

    def training_step(self, batch):
        return nn.functional.mse_loss(self.decoder(self.encoder(batch)), batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Trainer:
    def fit(self, module, batches):
        optimizer = module.configure_optimizers()
        for i, batch in enumerate(batches):

            def closure(batch=batch):
                loss = module.training_step(batch)
                optimizer.zero_grad()
                loss.backward()
                return loss

            print(i, f"{optimizer.step(closure).item():.4f}")


torch.manual_seed(0)
Trainer().fit(LitAutoEncoder(), torch.randn(STEPS, 32, 48))
