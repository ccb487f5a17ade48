# SPDX-License-Identifier: Apache-2.0
"""Nodes for people who watch a robot: console, recorder, markers."""
