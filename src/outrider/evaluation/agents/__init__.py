# SPDX-License-Identifier: Apache-2.0
"""Trials of agents that speak to a robot."""
