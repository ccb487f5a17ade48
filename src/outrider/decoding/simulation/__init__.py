"""Runs the machines on a virtual clock: deterministic, seeded schedules."""
