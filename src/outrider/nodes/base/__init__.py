"""Commanding a base: the action node and the ways to command."""
