"""Ops of losses and of heads that go by their targets."""
