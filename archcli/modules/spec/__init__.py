"""The framework of modules: fields, values, kinds, requests, and the trace of a model."""
