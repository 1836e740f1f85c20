"""Lightning: a module with its steps, a trainer that owns the loop, held-out data between the steps."""

import sys

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13


class LitClassifier(L.LightningModule):
    def __init__(self, width=64):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(self.encoder(x))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        print(f"{batch_idx}: {loss.item():.4f}")
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        accuracy = (self(x).argmax(-1) == y).float().mean()
        self.log("val_accuracy", accuracy)
        print(f"held out {batch_idx}: {accuracy.item():.3f}")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


def loader(batches, **options):
    return DataLoader(
        TensorDataset(torch.randn(16 * batches, 32), torch.randint(4, (16 * batches,))), 16, **options
    )


def main():
    L.seed_everything(0)
    trainer = L.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        gradient_clip_val=1.0,
        val_check_interval=5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(LitClassifier(), loader(STEPS, shuffle=True), loader(2))


if __name__ == "__main__":
    main()
