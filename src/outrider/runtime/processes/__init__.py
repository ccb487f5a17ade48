# SPDX-License-Identifier: Apache-2.0
"""Nodes as processes: what starts, watches and ends them, and the commands that run a whole robot so."""
