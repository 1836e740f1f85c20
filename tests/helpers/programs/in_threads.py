"""A loop in a thread that is alone, in a pool, of one epoch, or outlives the program; and its steps."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

how, steps = sys.argv[1], int(sys.argv[2])
trained = threading.Event()


def train():
    import torch
    from torch import nn

    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    trained.set()
    while how == "outlives":
        model(torch.ones(2, 8))
        time.sleep(0.001)


if how == "pool":
    with ThreadPoolExecutor(1) as pool:
        pool.submit(train).result()
else:
    for _ in range(3 if how == "epochs" else 1):
        thread = threading.Thread(target=train, daemon=how == "outlives")
        thread.start()
        if how == "outlives":
            trained.wait()
        else:
            thread.join()
print("done")
