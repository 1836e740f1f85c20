"""All cases of indexers, of experts that compute nothing and of several residual streams in one list."""

from ops import index_cases, stream_cases, zero_cases

CASES = {**index_cases.CASES, **zero_cases.CASES, **stream_cases.CASES}
REFERENCES = {**index_cases.REFERENCES, **zero_cases.REFERENCES, **stream_cases.REFERENCES}
