# SPDX-License-Identifier: Apache-2.0
"""Starts the graph, and checks a running one."""
