"""The ends of a model: embeddings, front ends, output heads and losses."""
