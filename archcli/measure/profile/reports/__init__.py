"""Reports of profiles: of one model, of variants, of several processes, and what some of them add."""
