"""Outrider: edge-cloud speculative decoding for language-conditioned robot navigation."""

__version__ = "0.1.0"
