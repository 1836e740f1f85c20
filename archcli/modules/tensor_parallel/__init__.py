"""One rank's share of a model: tensor, sequence and expert parallelism as a transformation of it."""
