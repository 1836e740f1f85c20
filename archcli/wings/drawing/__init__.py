"""Drawing: an architecture to scale, and a report as a page that calculates."""
