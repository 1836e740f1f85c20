"""Adapters: small trained products beside projections."""
