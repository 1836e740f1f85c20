"""Operations that do not state what their backward keeps, or not rightly yet. To be emptied."""

PENDING: set[str] = set()
