"""The composition root: puts the parts together from plain settings."""
