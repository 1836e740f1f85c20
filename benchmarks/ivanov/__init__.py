"""The layer that Ivanov et al. 2021 measured, with their table."""
