# SPDX-License-Identifier: Apache-2.0
"""Nodes as processes: starts, watches and ends them; the commands that run a whole robot this way."""
