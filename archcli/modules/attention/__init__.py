"""Attention: who is looked at, and from what keys and values are made."""

from archcli.modules.attention.base import Attention, LengthTemperature
from archcli.modules.attention.cross import CrossAttention
from archcli.modules.attention.grouped import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    ProjectedAttention,
)
from archcli.modules.attention.latent import MultiHeadLatentAttention
from archcli.modules.attention.linear import LinearAttention

__all__ = [
    "Attention",
    "CrossAttention",
    "GroupedQueryAttention",
    "LengthTemperature",
    "LinearAttention",
    "MultiHeadAttention",
    "MultiHeadLatentAttention",
    "MultiQueryAttention",
    "ProjectedAttention",
]
