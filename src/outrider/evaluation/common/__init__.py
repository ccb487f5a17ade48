# SPDX-License-Identifier: Apache-2.0
"""Shared by several benchmarks: ratios, plots, and models at the pace of other machines."""
