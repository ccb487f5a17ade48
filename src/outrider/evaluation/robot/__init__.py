# SPDX-License-Identifier: Apache-2.0
"""Evaluates navigation, frames, memory, console and idle load with the real parts."""
