"""Rows that the series of datasheets.py take, and multiples of fp32 with the documents that state them."""
