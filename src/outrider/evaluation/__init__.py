# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, evaluations and trials: what prints a figure lives here."""
