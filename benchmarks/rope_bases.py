"""The least RoPE base for a context, by Eq. 11 of arXiv:2405.14591: what rule POS002 compares with.

    python benchmarks/rope_bases.py 64 --context 131072

For each power of two from 1,024 tokens up to the context: the least base of two significant digits for which
B(m) = sum_i cos(m base^(-2i/dims)) is nowhere negative for m = 0 ... context. Some 1 to 3 minutes for a
million tokens.
"""

import argparse
from itertools import count

import numpy as np

CHUNK, NEAR = 1 << 15, 300


def first_negative(base, dims, start, stop):
    """The first m from start to below stop at which B(m) < 0; None where there is none."""
    frequencies = base ** (-np.arange(0, dims, 2) / dims)
    for begin in range(start, stop, CHUNK):
        m = np.arange(begin, min(begin + CHUNK, stop), dtype=np.float64)
        negative = np.flatnonzero(sum(np.cos(m * frequency) for frequency in frequencies) < 0)
        if negative.size:
            return begin + int(negative[0])
    return None


def least_bases(dims, most):
    """(context, least base) of each power of two up to `most`."""
    bases = (lead * 10.0**power for power in count(1) for lead in range(10, 100))
    base, last, context = next(bases), 0, 1024
    while context <= most:
        # neighbouring bases mostly fail at neighbouring m: look there first
        near = first_negative(base, dims, max(0, last - NEAR), min(last + NEAR, context + 1))
        negative = first_negative(base, dims, 0, context + 1) if near is None else near
        if negative is None:
            yield context, base
            context *= 2
        else:
            last, base = negative, next(bases)


def main():
    """Print the least bases."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("dims", type=int, help="rotary dims of a head, all of them turned")
    parser.add_argument("--context", type=int, default=1 << 20, help="the largest context")
    asked = parser.parse_args()
    for context, base in least_bases(asked.dims, asked.context):
        print(f"{asked.dims} dims  {context:>9,} tokens  {base:.1e}")


if __name__ == "__main__":
    main()
