"""A server under load: requests that arrive, the scheduler that admits them, and the times they see."""
