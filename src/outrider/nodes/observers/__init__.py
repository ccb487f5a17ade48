# SPDX-License-Identifier: Apache-2.0
"""Nodes that only watch: console, recorder, markers."""
