"""Memory of operations, read off their `run`: what a backward keeps, where outputs lie."""
