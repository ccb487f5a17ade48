# SPDX-License-Identifier: Apache-2.0
"""Injects faults while the robot drives, and measures how soon it stands and how its goal ends."""
