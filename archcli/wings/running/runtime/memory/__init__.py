"""Memory: what torch keeps, holds and shards of the built model, observed from outside of archcli."""
