"""Report: a page of one file that calculates, from a template, a style sheet and scripts beside it."""
