"""A loop as tutorials have it: a classifier, its loss outside, a look at the test set now and then."""

import importlib.util
import sys

if importlib.util.find_spec("torch") is None:
    sys.exit("this needs torch")

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(8 * 15 * 15, 10)

    def forward(self, x):
        return self.head(self.dropout(self.features(x).flatten(1)))


torch.manual_seed(0)
model, loss_function = Classifier(), nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(STEPS):
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    loss = loss_function(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        model.eval()
        with torch.no_grad():
            print(f"{step}: right {(model(images).argmax(-1) == labels).float().mean():.3f}")
        model.train()
    print(f"{step}: loss {loss.item():.4f}")
