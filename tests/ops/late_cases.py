"""All cases of indexers, of experts that compute nothing, of streams and of factors in one list."""

from ops import index_cases, scale_cases, stream_cases, zero_cases

FILES = (index_cases, zero_cases, stream_cases, scale_cases)
CASES = {name: case for file in FILES for name, case in file.CASES.items()}
REFERENCES = {name: reference for file in FILES for name, reference in file.REFERENCES.items()}
