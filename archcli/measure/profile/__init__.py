"""Profile: FLOP share, byte share and time share side by side. `fold` joins rows and times, `report` shows them, `document` says what."""
