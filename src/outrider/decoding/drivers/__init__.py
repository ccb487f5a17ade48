"""Runs the machines over links: in one process, or over sockets."""
