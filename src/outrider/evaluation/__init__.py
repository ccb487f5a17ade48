# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, evaluations and trials: everything that prints figures."""
