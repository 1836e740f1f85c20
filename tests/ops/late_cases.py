"""All cases of indexers, of experts that compute nothing or always, of streams and of factors in one list."""

from ops import (
    beside_cases,
    block_cases,
    communicate_cases,
    hyper_cases,
    index_cases,
    ngram_cases,
    scale_cases,
    stream_cases,
    zero_cases,
)

FILES = (
    beside_cases,
    block_cases,
    communicate_cases,
    hyper_cases,
    index_cases,
    ngram_cases,
    zero_cases,
    stream_cases,
    scale_cases,
)
CASES = {name: case for file in FILES for name, case in file.CASES.items()}
REFERENCES = {name: reference for file in FILES for name, reference in file.REFERENCES.items()}
