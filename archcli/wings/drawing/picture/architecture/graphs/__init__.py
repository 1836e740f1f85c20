"""Layout of a graph in ranks, from its inputs upwards (Sugiyama, Tagawa and Toda 1981)."""
