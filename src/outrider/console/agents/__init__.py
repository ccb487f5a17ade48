# SPDX-License-Identifier: Apache-2.0
"""Agents that speak the Model Context Protocol (MCP), as viewers of a console."""
