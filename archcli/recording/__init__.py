"""What a timed pass leaves behind, as plain data: torch operations, times, device activity. No torch.

`runtime` writes it, `measure` reads it.
"""
