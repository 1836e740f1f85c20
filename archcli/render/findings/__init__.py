"""Errors and findings: with the line of the file and a caret, a line each, or for CI systems."""
