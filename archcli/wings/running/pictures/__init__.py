"""Pictures of a profile: shares of time, and the roofline."""
