# SPDX-License-Identifier: Apache-2.0
"""Nodes, parameters and graphs as data, and the supervisor that starts them."""
