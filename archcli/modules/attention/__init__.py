"""Attention: who is looked at, and from what keys and values are made."""
