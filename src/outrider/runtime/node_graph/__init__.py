"""Nodes, parameters and graphs as data, and the supervisor that starts them."""
