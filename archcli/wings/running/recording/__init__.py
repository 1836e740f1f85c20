"""The recording of a timed pass as plain data: operations, times, device activity. No torch.

`runtime` writes it, `measure` reads it.
"""
