"""Uneven routing in numbers, worked out apart from the program: a bisection where it sums up."""

POWER = 1.2


def reached_by_power(number, top_k, tokens):
    """Experts that tokens reach where chances fall as rank^-1.2, add up to top_k, and are 1 at most."""
    loads = [rank**-POWER for rank in range(1, number + 1)]
    low, high = 0.0, 1e9
    for _ in range(200):
        scale = (low + high) / 2
        low, high = (low, scale) if sum(min(1, scale * load) for load in loads) > top_k else (scale, high)
    return sum(1 - (1 - min(1, low * load)) ** tokens for load in loads)
