# SPDX-License-Identifier: Apache-2.0
"""Agents' calls under way: reading their sentences, signs of life, and withdrawn calls."""
