# SPDX-License-Identifier: Apache-2.0
"""Turns verified text into bounded velocities."""
