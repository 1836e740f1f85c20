"""What the backward of each scan keeps: its steps, followed chunk by chunk."""
