# SPDX-License-Identifier: Apache-2.0
"""Runs one goal, from a sentence to its result."""
