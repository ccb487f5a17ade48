"""Benchmarks, evaluations and trials: what prints a figure lives here."""
