# SPDX-License-Identifier: Apache-2.0
"""Commanding a base: the action node and the ways to command."""
