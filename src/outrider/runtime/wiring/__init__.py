"""Puts decoders, verifiers and memories together from plain settings."""
