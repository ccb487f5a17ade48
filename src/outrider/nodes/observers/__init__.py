"""Nodes that only watch: console, recorder, markers."""
