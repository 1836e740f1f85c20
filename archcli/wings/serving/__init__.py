"""Serving: what a device holds and how fast it is: devices, engines, memory, predict and fit."""
