# SPDX-License-Identifier: Apache-2.0
"""The decoding engine: two sans-IO machines, what they run, and the drivers that need no network."""
