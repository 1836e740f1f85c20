"""What memory holds beyond the model itself: a draft, what an engine takes, and torch."""
