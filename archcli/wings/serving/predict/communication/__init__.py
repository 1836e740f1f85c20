"""What the ranks of a plan send each other: the collectives of a pass, their bytes, links and times."""
