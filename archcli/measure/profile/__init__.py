"""Profile: FLOP share, byte share and time share side by side. `fold` joins rows and times, `report` shows them."""

from archcli.measure.profile.report import profile_of

__all__ = ["profile_of"]
