# SPDX-License-Identifier: Apache-2.0
"""Nodes, parameters and graphs as data."""
