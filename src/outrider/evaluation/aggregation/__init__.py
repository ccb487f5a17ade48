# SPDX-License-Identifier: Apache-2.0
"""DRAGON and its baselines, compared on the virtual clock and over sockets."""
