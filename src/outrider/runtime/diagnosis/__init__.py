"""Judges an installation and a running graph."""
