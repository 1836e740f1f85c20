"""Autocast to bf16 with a scaler that is off, an LSTM, and clipping of values."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 13


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 2, enable_nested_tensor=False
        )
        self.lstm = nn.LSTM(32, 16, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(32, 5)

    def forward(self, x):
        return self.tags(self.lstm(self.encoder(self.embedding(x)))[0])


torch.manual_seed(0)
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
for step in range(STEPS):
    x = torch.randint(0, 50, (8, 24))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), (x % 5).flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    optimizer.step()
    print(step, f"{loss.item():.3f}")
